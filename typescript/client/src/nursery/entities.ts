// What is held of an entity, and what is shown of it.
import { MAIN } from "../values/ids.ts";
import type { Json } from "../values/json.ts";

/** Known not to be there. */
export const ABSENT: unique symbol = Symbol("absent");
/** Not held here: nobody may guess (SYNC-4). */
export const UNKNOWN: unique symbol = Symbol("unknown");
export type Nothing = typeof ABSENT | typeof UNKNOWN;
export type Seen = Json | Nothing;

export function isNothing(value: Seen): value is Nothing {
  return typeof value === "symbol";
}

/** An entity on a branch, as one text: neither an id nor a branch name holds a space. On `main`, where most entities
 * are, it is the id itself, so that no map needs a string of its own. */
export type Key = string;

export function keyOf(branch: string, id: string): Key {
  return branch === MAIN ? id : `${id} ${branch}`;
}

export function branchOf(key: Key): string {
  const at = key.indexOf(" ");
  return at < 0 ? MAIN : key.slice(at + 1);
}

export function idOf(key: Key): string {
  const at = key.indexOf(" ");
  return at < 0 ? key : key.slice(0, at);
}

/** Confirmed: the value of an entity, version and hash of its last fact (NURSERY-1).
 *
 * `hash` is null after a fact of somebody else, whose hash a JSON client cannot know. `asOf` is null for what is
 * watched, which is true at `to`; anything else has the version it was read at.
 */
export interface Cached {
  readonly value: Json | typeof ABSENT;
  readonly version: number;
  readonly hash: string | null;
  readonly asOf: number | null;
}

/** An own commit: the session it was made in, and its number there (COMMIT-5). */
export interface CommitName {
  readonly session: string;
  readonly local: number;
}

export function nameKey(name: CommitName): string {
  return `${name.session}:${name.local}`;
}

/** What one pending commit does to one entity: what it writes there (null: all of it), and what is shown with it. */
export interface ShownLayer {
  readonly name: CommitName;
  readonly paths: readonly string[] | null;
  readonly value: Seen;
}

/** An entity in a view: its value, the confirmed version to declare, the pending commits it is seen through. */
export interface Shown {
  readonly value: Seen;
  readonly basis: number;
  readonly layers: readonly ShownLayer[];
}
