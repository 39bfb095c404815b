// A commit before it has a name: what it writes, what it relied on, and what it was checked against.
import type { Json } from "../values/json.ts";
import type { Cached, CommitName } from "./entities.ts";

/** One operation. `value`: that of a `set`, the operations of a `patch`; it belongs to the nursery, nobody changes it. */
export interface CommitWrite {
  readonly op: "set" | "patch" | "delete";
  readonly id: string;
  readonly value?: Json;
  /** What it writes, as JSON Pointers; null is the whole entity. */
  readonly paths: readonly string[] | null;
  readonly blind: boolean;
}

/** A read to declare: of a path of an entity or of a prefix, at a confirmed version, through pending commits. */
export interface PlannedRead {
  readonly version: number;
  readonly id?: string;
  readonly prefix?: string;
  readonly path?: string;
  readonly through: readonly CommitName[];
}

/** What a transaction comes to. Without writes there is nothing to commit. */
export interface CommitPlan {
  readonly branch: string;
  readonly writes: readonly CommitWrite[];
  readonly reads: readonly PlannedRead[];
  readonly note?: Json;
  /** What was read from the server for it: the nursery holds it beneath the pending layers of these entities. */
  readonly bases: readonly (readonly [string, Cached])[];
}
