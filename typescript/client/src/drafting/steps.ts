// The writes of a draft, each as a step from one state of an entity to the next (COMMIT-3, COMMIT-6).
import { limitExceeded, StemmaError } from "../errors.ts";
import { ABSENT, isNothing, type Seen, type Shown } from "../nursery/entities.ts";
import type { CommitWrite } from "../nursery/plans.ts";
import { apply } from "../patch/apply.ts";
import { diff } from "../patch/diff.ts";
import { type Footprint, footprint } from "../patch/footprint.ts";
import type { Json } from "../values/json.ts";
import { encodedLength } from "../values/msgpack.ts";
import type { CheckedPatch, Limits } from "./inputs.ts";
import { PATHS_MAX, type Reads } from "./reads.ts";

/** An entity at one moment of a draft. `isOwn`: a `set` or `delete` of this draft lies beneath (COMMIT-3). */
export interface DraftState {
  readonly value: Seen;
  readonly isOwn: boolean;
}

/** What a step stands on: the entity as the view shows it, and what all steps of a draft share. */
export interface StepBase {
  readonly id: string;
  readonly shown: Shown;
  readonly branch: string;
  readonly limits: Limits;
  readonly reads: Reads;
}

/** A write that the app asked for. */
export interface DraftStep {
  /** Whether it can be done only where it is known what is there. */
  readonly needsBase: boolean;
  /** It claims nothing, and nothing is fetched for it. */
  readonly blind: boolean;
  /** What it writes, and the state after it, whatever is there; undefined if that depends on it. */
  readonly write?: CommitWrite;
  readonly ahead?: DraftState;
  /** The state after it and what it writes; declares what it relies on, and throws if it cannot be done. */
  onto(state: DraftState, ground: StepBase): [DraftState, CommitWrite | undefined];
}

/** Declares that a path was relied on, unless the draft itself wrote the entity before. */
export function claim(ground: StepBase, state: DraftState, path: string): void {
  if (!state.isOwn) ground.reads.declare(ground.id, path, ground.shown);
}

/** The whole value. With `isNew` it claims that nothing was there. */
export function putStep(id: string, value: Json, blind = false, isNew = false): DraftStep {
  const write: CommitWrite = { op: "set", id, value, paths: null, blind };
  const ahead: DraftState = { value, isOwn: true };
  return {
    needsBase: isNew, blind, write, ahead,
    onto(state, ground) {
      if (!blind) claim(ground, state, "");
      if (isNew && state.value !== ABSENT) throw new StemmaError("already_exists", { id, branch: ground.branch });
      return [ahead, write];
    },
  };
}

/** Nothing is there afterwards, and it must have been there before. */
export function deleteStep(id: string, blind = false): DraftStep {
  const write: CommitWrite = { op: "delete", id, paths: null, blind };
  const ahead: DraftState = { value: ABSENT, isOwn: true };
  return {
    needsBase: false, blind, write, ahead,
    onto(state, ground) {
      if (!blind) claim(ground, state, "");
      if (state.value === ABSENT) throw new StemmaError("not_found", { id, branch: ground.branch });
      return [ahead, write];
    },
  };
}

/** The operations of a patch on what is there. */
export function patchStep(id: string, taken: CheckedPatch, blind = false): DraftStep {
  const { operations, footprint: touched } = taken;
  const write: CommitWrite = { op: "patch", id, value: operations, paths: touched.writes, blind };
  return {
    needsBase: true, blind, write,
    onto(state, ground) {
      if (!blind) for (const path of claims(touched)) claim(ground, state, path);
      try {
        return [{ value: applied(id, state.value, operations, ground), isOwn: state.isOwn }, write];
      } catch (error) {
        const isTold = error instanceof StemmaError && ["not_found", "patch_failed"].includes(error.code);
        // Increments too: the app learns what is there.
        if (isTold && !blind) for (const path of touched.writes) claim(ground, state, path);
        throw error;
      }
    },
  };
}

/** The value after a patch, within the bounds that a server keeps. */
function applied(id: string, value: Seen, operations: readonly Json[], ground: StepBase): Json {
  if (isNothing(value)) throw new StemmaError("not_found", { id, branch: ground.branch });
  const made = apply(value, operations);
  const size = encodedLength(made);
  const { value_bytes_max, depth_max } = ground.limits;
  if (size > value_bytes_max && size > encodedLength(value)) throw limitExceeded("value_bytes_max", value_bytes_max, size);
  const depth = depthOf(made, depth_max + 1);
  if (depth > depth_max) throw limitExceeded("depth_max", depth_max, depth);
  return made;
}

/** How deep containers nest, looking no deeper than `bound`. */
function depthOf(value: Json, bound: number): number {
  if (bound === 0 || typeof value !== "object" || value === null) return 0;
  let deepest = 0;
  for (const item of Object.values(value as object) as Json[]) {
    if (typeof item === "object" && item !== null) deepest = Math.max(deepest, depthOf(item, bound - 1));
  }
  return deepest + 1;
}

/** Another value in the place of the one that is there, written as the small patch that leads to it. */
export function updateStep(id: string, value: Json): DraftStep {
  return {
    needsBase: true, blind: false,
    onto(state, ground) {
      if (isNothing(state.value)) {
        claim(ground, state, "");
        throw new StemmaError("not_found", { id, branch: ground.branch });
      }
      const operations = diff(state.value, value);
      if (!operations.length) return [state, undefined];
      const made: CheckedPatch = { operations, footprint: footprint(operations) };
      if (isBetterWhole(made, value, state, ground.limits)) return putStep(id, value).onto(state, ground);
      return patchStep(id, made).onto(state, ground);
    },
  };
}

/** Where the value is shorter and the patch would claim no less; a small value is patched all the same. */
function isBetterWhole(made: CheckedPatch, value: Json, state: DraftState, limits: Limits): boolean {
  const size = encodedLength(made.operations);
  if (size > limits.value_bytes_max || made.operations.length > limits.patch_operations_max) return true;
  const claimed = claims(made.footprint);
  const claimsAll = state.isOwn || (claimed.length === 1 && claimed[0] === "");
  return claimsAll && size >= encodedLength(value);
}

/** The paths that a patch relies on: those it reads, and those it writes but for what is only incremented. */
function claims(touched: Footprint): readonly string[] {
  const increments = new Set(touched.increments);
  const paths = new Set([...touched.reads, ...touched.writes.filter((path) => !increments.has(path))]);
  return paths.size > PATHS_MAX ? [""] : [...paths];
}
