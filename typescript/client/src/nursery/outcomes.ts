// What becomes of pending commits, refusals and their cascade, and what a frame came to.
import { StemmaError } from "../errors.ts";
import type { Current, RejectedVerdict, StaleRead } from "../wire/messages.ts";
import type { CommitName } from "./entities.ts";
import type { PendingLayers } from "./layers.ts";
import type { Pending } from "./pending.ts";

/** Durable on the server. */
export interface Confirmation {
  readonly pending: Pending;
  readonly version: number;
  readonly time: number;
  readonly hash: string;
}

/** Not in the log, and never will be under this name. */
export interface CommitRefusal {
  readonly pending: Pending;
  readonly code: string;
  readonly message: string;
  readonly details: { readonly [key: string]: unknown };
  readonly stale: readonly StaleRead[];
  readonly current: readonly Current[];
  /** The version at which it was decided: what `current` is as of. */
  readonly decided: number;
  /** The refused commit it depended on, if it was not refused itself (NURSERY-3). */
  readonly because?: CommitName;
}

/** The outcome of a frame, for the session to journal and report. */
export interface Integrated {
  readonly confirmed: readonly Confirmation[];
  readonly refused: readonly CommitRefusal[];
  /** Watches that are over, and why. */
  readonly ended: readonly (readonly [number, StemmaError])[];
  /** There was a verdict for a commit that was never made here: somebody else uses this session (NURSERY-5). */
  readonly strangers: boolean;
}

export const NOTHING_DECIDED: Integrated = { confirmed: [], refused: [], ended: [], strangers: false };

export function refusedByServer(pending: Pending, verdict: RejectedVerdict, decided: number): CommitRefusal {
  const { code, message, details = {}, stale = [], current = [] } = verdict;
  return { pending, code, message, details, stale, current, decided };
}

export function refusedLocally(pending: Pending, error: StemmaError, decided = 0): CommitRefusal {
  const { code, message, details } = error;
  return { pending, code, message, details, stale: [], current: [], decided };
}

/** The refusal of a commit that was built on a refused one (COMMIT-4). */
export function rejectedBecauseOf(pending: Pending, because: CommitName): CommitRefusal {
  return { ...refusedLocally(pending, new StemmaError("dependency", { local: because.local })), because };
}

/** The refused commits and all their dependents, each after the commit it depends on (NURSERY-3). */
export function withDependents(refusals: readonly CommitRefusal[], layers: PendingLayers): CommitRefusal[] {
  const found = new Map(refusals.map((one) => [one.pending.key, one]));
  for (const one of found.values()) {
    const root = one.because ?? one.pending.name;
    for (const above of layers.dependents(one.pending.key)) {
      if (!found.has(above.key)) found.set(above.key, rejectedBecauseOf(above, root));
    }
  }
  return [...found.values()];
}
