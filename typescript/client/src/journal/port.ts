// The seam of the journal: what is kept, and in which steps; one step is durable whole or not at all.
import type { CommitName } from "../nursery/entities.ts";
import type { Json } from "../values/json.ts";
import type { Current, StaleRead } from "../wire/messages.ts";

export interface Standing {
  readonly to: number;
  readonly hash: string;
}

/** What a pending commit was built on, so that it can be shown after a restart without the server. */
export interface CommitBase {
  readonly id: string;
  readonly version: number;
  readonly hash: string | null;
  readonly asOf: number;
  /** The JSON text of the value; undefined if there was none. */
  readonly value?: string;
}

/** An undecided commit, exactly as it is sent: its content is a text (COMMIT-5, TS-4). */
export interface JournaledCommit {
  readonly name: CommitName;
  readonly nonce: string;
  readonly content: string;
  readonly bases: readonly CommitBase[];
}

/** A commit seen confirmed; the last `lost_keep_max` tell what a restored server lost (RESUME-4). */
export interface ConfirmedCommit {
  readonly name: CommitName;
  readonly version: number;
  readonly hash: string;
  readonly content: string;
}

/** A commit that was not accepted, and why: inspect it, submit it again, or drop it. */
export interface RejectedRecord {
  readonly name: CommitName;
  readonly content: string;
  readonly code: string;
  readonly message: string;
  readonly time: number;
  readonly details: { readonly [key: string]: Json };
  readonly stale: readonly StaleRead[];
  readonly current: readonly Current[];
  readonly decided: number;
  readonly because?: CommitName;
}

/** One atomic step. What is confirmed or rejected is no longer pending; `drop` deletes rejected commits. */
export interface JournalStep {
  readonly add?: readonly JournaledCommit[];
  readonly confirm?: readonly ConfirmedCommit[];
  readonly reject?: readonly RejectedRecord[];
  readonly drop?: readonly CommitName[];
  readonly forget?: readonly CommitName[];
  readonly standing?: Standing;
}

/** What a journal holds when it is opened; `pending` are the commits of sessions that this client has adopted. */
export interface JournalState {
  readonly session: string;
  readonly standing?: Standing;
  readonly pending: readonly JournaledCommit[];
  readonly confirmed: readonly ConfirmedCommit[];
  readonly rejected: readonly RejectedRecord[];
}

/** Steps become durable in the order in which they are written; several may share one transaction. */
export interface Journal {
  /** Whether anything survives the page: "off" for the one in memory. */
  readonly state: "off" | "persistent" | "evictable" | "failed";
  /** Whether sessions of tabs that are gone can be adopted. */
  readonly adoption: boolean;
  /** What is there, and the session in which this client makes its commits. */
  load(): Promise<JournalState>;
  /** Another session for new commits: the one before turned out to be somebody else's too. */
  newSession(): Promise<string>;
  /** Takes a step at once; resolves when it is durable. After a failure every later step fails too. */
  write(step: JournalStep): Promise<void>;
  /** The page wakes from a frozen state: false if another tab has taken the session over meanwhile. */
  stillOurs(session: string): Promise<boolean>;
  /** Rejected commits as they are now: other tabs add and drop them as well. */
  rejected(): Promise<readonly RejectedRecord[]>;
  /** Calls when another tab has changed something. */
  onElsewhere(callback: () => void): void;
  close(): Promise<void>;
}
