// Confirmed values by branch and entity, as the server sent them; watched ones are true at `to` (NURSERY-1).
import { ABSENT, branchOf, type Cached, idOf, type Key, keyOf, type Seen, UNKNOWN } from "./entities.ts";

/** What one watch holds, as the server says; `names` and `prefixes`: what it would hold if it were there. */
export class Membership {
  readonly branch: string;
  readonly names: ReadonlySet<string>;
  readonly prefixes: readonly string[];
  ids = new Set<string>();
  isFilled = false;

  constructor(branch: string, names: Iterable<string> = [], prefixes: Iterable<string> = []) {
    this.branch = branch;
    this.names = new Set(names);
    this.prefixes = [...prefixes];
  }
}

/** What the filled watches of a branch name: of these it is known whether they are there. */
export class WatchCoverage {
  readonly names: ReadonlySet<string>;
  readonly prefixes: readonly string[];

  constructor(names: ReadonlySet<string>, prefixes: readonly string[]) {
    this.names = names;
    this.prefixes = prefixes;
  }

  has(id: string): boolean {
    return this.names.has(id) || this.covers(id);
  }

  covers(prefix: string): boolean {
    return this.prefixes.some((one) => prefix.startsWith(one));
  }
}

const NO_MEMBERS: ReadonlySet<string> = new Set();

/** Values by branch and id, and which watches hold them. Changed by frames, answers and the end of watches. */
export class Confirmed {
  to = 0;
  hash: string | null = null;
  readonly watches = new Map<number, Membership>();
  private coverages = new Map<string, WatchCoverage>();
  private cached = new Map<Key, Cached>();
  private holdersOf = new Map<Key, number>();
  /** Watched entities whose value is wrong, to be fetched again; with the version of their last fact. */
  private doubts = new Map<Key, number>();

  get(key: Key): Cached | undefined {
    return this.cached.get(key);
  }

  /** The confirmed value; ABSENT where a filled watch would hold it, UNKNOWN where nobody can tell. */
  value(key: Key): Seen {
    const cached = this.cached.get(key);
    if (cached !== undefined) return cached.value;
    return !this.doubts.has(key) && this.covered(key) ? ABSENT : UNKNOWN;
  }

  /** Whether a filled watch names it, so that it is there only if it is cached. */
  covered(key: Key): boolean {
    return this.coverage(branchOf(key)).has(idOf(key));
  }

  coverage(branch: string): WatchCoverage {
    let known = this.coverages.get(branch);
    if (known === undefined) {
      const filled = [...this.watches.values()].filter((one) => one.isFilled && one.branch === branch);
      const names = new Set(filled.flatMap((one) => [...one.names]));
      known = new WatchCoverage(names, filled.flatMap((one) => one.prefixes));
      this.coverages.set(branch, known);
    }
    return known;
  }

  isWatched(key: Key): boolean {
    return this.holdersOf.has(key);
  }

  isDoubtful(key: Key): boolean {
    return this.doubts.has(key);
  }

  /** Watched entities whose value is asked for (SYNC-4). */
  doubtful(): Iterable<Key> {
    return this.doubts.keys();
  }

  *watched(branch: string): Iterable<string> {
    for (const key of this.holdersOf.keys()) if (branchOf(key) === branch) yield idOf(key);
  }

  // ------------------------------------------------------------ changing

  put(key: Key, cached: Cached): void {
    this.cached.set(key, cached);
    this.doubts.delete(key);
  }

  /** What is cached is not right, or something is missing: nobody is shown a guess (SYNC-4). */
  doubt(key: Key, version: number): void {
    this.cached.delete(key);
    if (this.holdersOf.has(key)) this.doubts.set(key, version);
  }

  /** The last version at which the server sent a fact of a doubtful entity. */
  lastVersionOf(key: Key): number {
    return this.doubts.get(key) ?? 0;
  }

  forget(key: Key): void {
    this.cached.delete(key);
    this.doubts.delete(key);
  }

  /** The watch holds it now; whether it did not before. */
  enter(watch: number, id: string): boolean {
    const membership = this.watches.get(watch)!;
    if (membership.ids.has(id)) return false;
    membership.ids.add(id);
    const key = keyOf(membership.branch, id);
    this.holdersOf.set(key, this.holders(key) + 1);
    return true;
  }

  /** The watch holds it no longer; gives the key if no watch does now. */
  leave(watch: number, id: string): Key | undefined {
    const membership = this.watches.get(watch)!;
    if (!membership.ids.delete(id)) return undefined;
    const key = keyOf(membership.branch, id);
    const left = this.holders(key) - 1;
    if (left > 0) {
      this.holdersOf.set(key, left);
      return undefined;
    }
    this.holdersOf.delete(key);
    return key;
  }

  /** How many watches hold it. */
  holders(key: Key): number {
    return this.holdersOf.get(key) ?? 0;
  }

  members(watch: number): ReadonlySet<string> {
    return this.watches.get(watch)?.ids ?? NO_MEMBERS;
  }

  fill(watch: number): void {
    this.watches.get(watch)!.isFilled = true;
    this.coverages.clear();
  }

  /** Takes the watch from all its entities, and says which no watch holds now. */
  empty(watch: number): Key[] {
    const membership = this.watches.get(watch)!;
    membership.isFilled = false;
    this.coverages.clear();
    return [...membership.ids].map((id) => this.leave(watch, id)).filter((key) => key !== undefined);
  }

  /** Forgets all that was sent, but not which watches there are (RESUME-1, RESUME-4). */
  startOver(): Set<Key> {
    const forgotten = new Set([...this.cached.keys(), ...this.doubts.keys()]);
    this.cached = new Map();
    this.holdersOf = new Map();
    this.doubts = new Map();
    for (const membership of this.watches.values()) {
      membership.ids = new Set();
      membership.isFilled = false;
    }
    this.coverages.clear();
    this.to = 0;
    this.hash = null;
    return forgotten;
  }
}
