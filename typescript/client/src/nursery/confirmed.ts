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

/** How many watches hold it; with the entity, since a map of its own would cost each one 50 bytes. */
interface Watched {
  holders: number;
}
type Entity = Cached & Watched;
/** A watched entity whose value is wrong, to be fetched again; with the version of its last fact. */
type Doubt = { readonly version: number } & Watched;

/** Values by branch and id, and which watches hold them. Changed by frames, answers and the end of watches. */
export class Confirmed {
  to = 0;
  hash: string | null = null;
  readonly watches = new Map<number, Membership>();
  private coverages = new Map<string, WatchCoverage>();
  /** Each entity is in one of the two maps at most. */
  private cached = new Map<Key, Entity>();
  private doubts = new Map<Key, Doubt>();

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
    return this.holders(key) > 0;
  }

  isDoubtful(key: Key): boolean {
    return this.doubts.has(key);
  }

  /** Watched entities whose value is asked for (SYNC-4). */
  doubtful(): Iterable<Key> {
    return this.doubts.keys();
  }

  /** Everything that a watch holds. */
  *watched(): Iterable<Key> {
    for (const [key, { holders }] of this.cached) if (holders) yield key;
    for (const [key, { holders }] of this.doubts) if (holders) yield key;
  }

  // ------------------------------------------------------------ changing

  put(key: Key, cached: Cached): void {
    const { value, version, hash, asOf } = cached;
    this.cached.set(key, { value, version, hash, asOf, holders: this.holders(key) });
    this.doubts.delete(key);
  }

  /** What is cached is not right, or something is missing: nobody is shown a guess (SYNC-4). */
  doubt(key: Key, version: number): void {
    const holders = this.holders(key);
    this.cached.delete(key);
    if (holders) this.doubts.set(key, { version, holders });
  }

  /** The last version at which the server sent a fact of a doubtful entity. */
  lastVersionOf(key: Key): number {
    return this.doubts.get(key)?.version ?? 0;
  }

  /** Of what no watch holds. */
  forget(key: Key): void {
    this.cached.delete(key);
    this.doubts.delete(key);
  }

  /** The watch holds it now, in doubt if its value is not here; whether it did not hold it before. */
  enter(watch: number, id: string, key: Key, version: number): boolean {
    const { ids } = this.watches.get(watch)!;
    const before = ids.size;
    if (ids.add(id).size === before) return false;
    const watched = this.watchedOf(key);
    if (watched === undefined) this.doubts.set(key, { version, holders: 1 });
    else watched.holders += 1;
    return true;
  }

  /** The watch holds it no longer; gives the key if no watch does now. */
  leave(watch: number, id: string): Key | undefined {
    const membership = this.watches.get(watch)!;
    if (!membership.ids.delete(id)) return undefined;
    const key = keyOf(membership.branch, id);
    const watched = this.watchedOf(key)!;
    watched.holders -= 1;
    return watched.holders > 0 ? undefined : key;
  }

  /** How many watches hold it. */
  holders(key: Key): number {
    return this.watchedOf(key)?.holders ?? 0;
  }

  private watchedOf(key: Key): Watched | undefined {
    return this.cached.get(key) ?? this.doubts.get(key);
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
