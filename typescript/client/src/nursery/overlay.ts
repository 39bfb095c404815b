// What is shown: confirmed values with the pending layers on top, the views of it, and its watchers.
import type { StemmaError } from "../errors.ts";
import { Confirmed, type Membership } from "./confirmed.ts";
import { branchOf, type Cached, idOf, type Key, keyOf, type Seen, type Shown, UNKNOWN } from "./entities.ts";
import { type EntityLayer, PendingLayers } from "./layers.ts";
import type { Pending } from "./pending.ts";
import { NurseryView, type ViewSource } from "./view.ts";

/** A watcher, as far as the nursery is concerned. */
export interface Watched {
  readonly branch: string;
  /** These may look different now, or the watch may hold them no longer. */
  mark(ids: Iterable<string>): void;
  fill(): void;
  unfill(): void;
  end(error: StemmaError): void;
}

/** Everything that can be looked at without a server. Changed by the nursery only. */
export class Overlay implements ViewSource {
  protected readonly confirmed = new Confirmed();
  protected readonly layers: PendingLayers = new PendingLayers(
    (key) => this.confirmed.value(key),
    (key) => this.aboutToChange(key),
  );
  protected readonly views = new Set<NurseryView>();
  protected readonly watchers = new Map<number, Watched>();
  /** What pending work writes and nobody can show, since what is beneath is not cached. */
  private readonly unknown = new Set<Key>();

  // ------------------------------------------------------------ where it stands

  /** The version up to which everything watched is true. */
  get to(): number {
    return this.confirmed.to;
  }

  get hash(): string | null {
    return this.confirmed.hash;
  }

  /** What must be asked for: watched entities that do not fit, and those beneath pending work (SYNC-4). */
  wanted(): Set<Key> {
    return new Set([...this.unknown, ...this.confirmed.doubtful()]);
  }

  isWanted(key: Key): boolean {
    return this.unknown.has(key) || this.confirmed.isDoubtful(key);
  }

  // ------------------------------------------------------------ what is shown

  /** What is shown of an entity: ABSENT if it is known not to be there, UNKNOWN if nobody can tell. */
  value(branch: string, id: string): Seen {
    return this.layers.shown(keyOf(branch, id));
  }

  /** Whether a read of it needs no server: a watch holds it, or would if it were there, and it is in order. */
  isLocal(branch: string, id: string): boolean {
    const key = keyOf(branch, id);
    return !this.confirmed.isDoubtful(key) && (this.confirmed.isWatched(key) || this.confirmed.covered(key));
  }

  /** Captures what is shown now, until it is released (NURSERY-2). */
  view(branch: string): NurseryView {
    const view = new NurseryView(this, branch, this.to, this.confirmed.coverage(branch));
    this.views.add(view);
    return view;
  }

  release(view: NurseryView): void {
    this.views.delete(view);
  }

  present(key: Key, to: number): Shown | undefined {
    const cached = this.confirmed.get(key);
    const basis = cached?.asOf ?? to;
    if (this.layers.has(key)) {
      const layers = this.layers.shownLayers(key).map((layer) => layer.shown());
      return { value: this.layers.shown(key), basis, layers };
    }
    if (cached !== undefined) return { value: cached.value, basis, layers: [] };
    return this.confirmed.isDoubtful(key) ? { value: UNKNOWN, basis: to, layers: [] } : undefined;
  }

  /** The cached entity, if this commit is its lowest layer. */
  beneath(key: Key, pending: Pending): Cached | undefined {
    const cached = this.confirmed.get(key);
    return cached !== undefined && this.layers.isLowest(pending, key) ? cached : undefined;
  }

  shownLayers(key: Key): readonly EntityLayer[] {
    return this.layers.shownLayers(key);
  }

  /** Entities under the prefix that are watched or written by pending commits. */
  idsUnder(branch: string, prefix: string): Set<string> {
    const found = new Set<string>();
    for (const key of this.keysUnder(branch, prefix)) found.add(idOf(key));
    return found;
  }

  private *keysUnder(branch: string, prefix: string): Iterable<Key> {
    for (const keys of [this.layers.keys(), this.confirmed.watched()]) {
      for (const key of keys) if (key.startsWith(prefix) && branchOf(key) === branch) yield key;
    }
  }

  // ------------------------------------------------------------ for watchers and server reads

  /** What the server says a watch holds. */
  members(watch: number): ReadonlySet<string> {
    return this.confirmed.members(watch);
  }

  /** What is shown of the entities under the prefix that are watched or written by pending commits. */
  under(branch: string, prefix: string): Map<string, Seen> {
    const found = new Map<string, Seen>();
    for (const key of this.keysUnder(branch, prefix)) found.set(idOf(key), this.layers.shown(key));
    return found;
  }

  /** The entities that pending commits write on a branch. */
  layered(branch: string): string[] {
    return [...this.layers.keys()].filter((key) => branchOf(key) === branch).map(idOf);
  }

  /** What is shown where the confirmed value is this one. */
  over(branch: string, id: string, value: Seen): Seen {
    return this.layers.over(keyOf(branch, id), value);
  }

  // ------------------------------------------------------------ watches

  /** A watch begins: it holds nothing until frames say so. */
  watch(number: number, membership: Membership, watcher: Watched): void {
    this.confirmed.watches.set(number, membership);
    this.watchers.set(number, watcher);
  }

  /** A watch is over: what no watch holds is kept only beneath pending work, as of now. */
  unwatch(number: number): void {
    if (!this.confirmed.watches.has(number)) return;
    this.unfill(number);
    this.confirmed.watches.delete(number);
    this.watchers.delete(number);
  }

  /** Ends all others: the server never heard, or has forgotten, that they are over. */
  keepWatches(numbers: ReadonlySet<number>): void {
    for (const number of [...this.confirmed.watches.keys()]) if (!numbers.has(number)) this.unwatch(number);
  }

  /** The watch will come whole on the next connection: takes it from all its entities first (RESUME-1). */
  unfill(number: number): void {
    const membership = this.confirmed.watches.get(number)!;
    const keys = [...membership.ids].map((id) => keyOf(membership.branch, id));
    this.changeBeneath([...keys, ...this.uncached()], () => this.letGo(this.confirmed.empty(number)));
    this.watchers.get(number)!.unfill();
  }

  isFilled(number: number): boolean {
    return this.confirmed.watches.get(number)?.isFilled ?? false;
  }

  /** An entity that left its last watch is true as of now, and stays cached only beneath pending layers. */
  private letGo(orphans: readonly Key[]): void {
    for (const key of orphans) {
      const cached = this.confirmed.get(key);
      if (cached !== undefined && this.layers.has(key)) this.confirmed.put(key, { ...cached, asOf: this.to });
      else this.confirmed.forget(key);
    }
  }

  /** What pending work writes and nobody holds: whether it is known to be absent depends on the watches. */
  protected uncached(): Key[] {
    return [...this.layers.keys()].filter((key) => this.confirmed.get(key) === undefined);
  }

  // ------------------------------------------------------------ changing it

  /** Changes the confirmed values of these entities, then applies their layers again. */
  protected changeBeneath(keys: Iterable<Key>, change: () => void): void {
    const touched = new Set(keys);
    for (const key of touched) this.aboutToChange(key);
    change();
    this.changed(this.layers.replay(touched));
  }

  protected aboutToChange(key: Key): void {
    for (const view of this.views) if (view.branch === branchOf(key)) view.retain(idOf(key));
  }

  /** These may look different now: notes what cannot be shown, and marks them at the watchers. */
  protected changed(keys: Iterable<Key>): void {
    const byBranch = new Map<string, string[]>();
    for (const key of keys) {
      if (this.layers.has(key) && this.layers.shown(key) === UNKNOWN) this.unknown.add(key);
      else this.unknown.delete(key);
      const branch = branchOf(key);
      const ids = byBranch.get(branch);
      if (ids === undefined) byBranch.set(branch, [idOf(key)]);
      else ids.push(idOf(key));
    }
    for (const watcher of this.watchers.values()) {
      const ids = byBranch.get(watcher.branch);
      if (ids !== undefined) watcher.mark(ids);
    }
  }
}
