// The layers of pending commits: what each entity looks like with them on top (NURSERY-1, NURSERY-3).
//
// Each entity that pending commits write has a list of layers over its confirmed value, the oldest first. A commit is
// shown whole or not at all: if one of its operations does not apply, or a commit it builds on is not shown, all its
// layers are skipped until that changes.
//
// Example: `x` is confirmed as 1, and two pending commits increment it.
//
//     push(A), push(B)     x: 1 | A shows 2 | B shows 3
//     A is confirmed       x: 2 | B shows 3             A is removed, B is applied to the new confirmed value
//     B is rejected        x: 2                         B is removed; commits that read through B leave with it
import { type Key, keyOf, type Seen, type ShownLayer } from "./entities.ts";
import { after, DOES_NOT_APPLY } from "./operations.ts";
import type { Pending } from "./pending.ts";
import type { CommitWrite } from "./plans.ts";

const NOWHERE = Symbol("nowhere");

/** One pending commit's writes to one entity, the value beneath them, and the value shown with them applied. */
export class EntityLayer {
  readonly pending: Pending;
  readonly writes: readonly CommitWrite[];
  readonly paths: readonly string[] | null;
  applies = true;
  shows!: Seen;
  private before: Seen | typeof NOWHERE = NOWHERE;
  private made: ShownLayer | undefined;

  constructor(pending: Pending, writes: readonly CommitWrite[]) {
    this.pending = pending;
    this.writes = writes;
    this.paths = pathsOf(writes);
  }

  /** True if it was applied to this very value: values never change, so what it shows is still right. */
  isAppliedTo(value: Seen): boolean {
    return this.before === value;
  }

  invalidate(): void {
    this.before = NOWHERE;
  }

  /** Applies the writes; shows the value unchanged if they do not apply or the commit is not shown. */
  apply(value: Seen): void {
    this.before = value;
    this.made = undefined;
    const over = after(value, this.writes);
    this.applies = over !== DOES_NOT_APPLY;
    this.shows = over !== DOES_NOT_APPLY && this.pending.isShown ? over : value;
  }

  /** The layer as views show it; made once for all of them. */
  shown(): ShownLayer {
    this.made ??= { name: this.pending.name, paths: this.paths, value: this.shows };
    return this.made;
  }
}

function pathsOf(writes: readonly CommitWrite[]): readonly string[] | null {
  const paths = new Set<string>();
  for (const write of writes) {
    if (write.paths === null) return null;
    for (const path of write.paths) paths.add(path);
  }
  return [...paths];
}

/** Commits to judge, the oldest first. */
class Judged {
  private readonly heap: Pending[] = [];

  push(pending: Pending): void {
    const { heap } = this;
    let at = heap.push(pending) - 1;
    for (let up = (at - 1) >> 1; at > 0 && heap[up]!.order > pending.order; up = (at - 1) >> 1) {
      heap[at] = heap[up]!;
      at = up;
    }
    heap[at] = pending;
  }

  pop(): Pending | undefined {
    const { heap } = this;
    const first = heap[0];
    const last = heap.pop();
    if (!heap.length || last === undefined) return first;
    let at = 0;
    for (;;) {
      let down = 2 * at + 1;
      if (down + 1 < heap.length && heap[down + 1]!.order < heap[down]!.order) down += 1;
      if (down >= heap.length || heap[down]!.order >= last.order) break;
      heap[at] = heap[down]!;
      at = down;
    }
    heap[at] = last;
    return first;
  }
}

/** Pending commits in order, and their layers by entity. */
export class PendingLayers {
  private readonly base: (key: Key) => Seen;
  private readonly aboutToChange: (key: Key) => void;
  private readonly commits = new Map<string, Pending>();
  private count = 0;
  private readonly byCommit = new Map<string, Map<Key, EntityLayer>>();
  private readonly byEntity = new Map<Key, EntityLayer[]>();
  private readonly dependentsOf = new Map<string, string[]>();
  /** How many pending commits write on each branch. */
  readonly branches = new Map<string, number>();

  constructor(base: (key: Key) => Seen, aboutToChange: (key: Key) => void) {
    this.base = base;
    this.aboutToChange = aboutToChange;
  }

  get size(): number {
    return this.commits.size;
  }

  all(): Iterable<Pending> {
    return this.commits.values();
  }

  find(key: string): Pending | undefined {
    return this.commits.get(key);
  }

  /** The entities that pending commits write. */
  keys(): Iterable<Key> {
    return this.byEntity.keys();
  }

  has(key: Key): boolean {
    return this.byEntity.has(key);
  }

  /** The pending commits that were read through this one. */
  dependents(name: string): Pending[] {
    const found = (this.dependentsOf.get(name) ?? []).map((one) => this.commits.get(one));
    return found.filter((one) => one !== undefined);
  }

  // ------------------------------------------------------------ what is shown

  /** The value with every layer on top; the confirmed one where there are none. */
  shown(key: Key): Seen {
    const layers = this.byEntity.get(key);
    return layers === undefined ? this.base(key) : layers.at(-1)!.shows;
  }

  shownLayers(key: Key): EntityLayer[] {
    return (this.byEntity.get(key) ?? []).filter((one) => one.pending.isShown);
  }

  /** What the commit's layer shows, if it is shown and was applied to this very value. */
  shownOn(pending: Pending, key: Key, value: Seen): Seen | undefined {
    const layer = this.byCommit.get(pending.key)!.get(key)!;
    return pending.isShown && layer.isAppliedTo(value) ? layer.shows : undefined;
  }

  /** True if no other commit is between this one and the confirmed value. */
  isLowest(pending: Pending, key: Key): boolean {
    return this.byEntity.get(key)![0]!.pending === pending;
  }

  /** What would be shown if the confirmed value were this one. */
  over(key: Key, value: Seen): Seen {
    let now = value;
    for (const layer of this.shownLayers(key)) {
      const next = after(now, layer.writes);
      if (next !== DOES_NOT_APPLY) now = next;
    }
    return now;
  }

  // ------------------------------------------------------------ changing it

  /** Adds a commit on top. Costs what the commit writes, however many are beneath. */
  push(pending: Pending): void {
    this.count += 1;
    pending.order = this.count;
    this.commits.set(pending.key, pending);
    for (const below of pending.depends) {
      const known = this.dependentsOf.get(below);
      if (known === undefined) this.dependentsOf.set(below, [pending.key]);
      else known.push(pending.key);
    }
    this.branches.set(pending.branch, (this.branches.get(pending.branch) ?? 0) + 1);
    const own = new Map<Key, EntityLayer>();
    this.byCommit.set(pending.key, own);
    for (const id of pending.byId.keys()) this.lay(pending, id, own);
    if (!this.mayShow(pending)) {
      this.flip(pending);
      this.replay(new Set(pending.written()));
    }
  }

  private lay(pending: Pending, id: string, own: Map<Key, EntityLayer>): void {
    const key = keyOf(pending.branch, id);
    this.aboutToChange(key);
    const layer = new EntityLayer(pending, pending.writesTo(id));
    layer.apply(this.shown(key));
    const layers = this.byEntity.get(key);
    if (layers === undefined) this.byEntity.set(key, [layer]);
    else layers.push(layer);
    own.set(key, layer);
  }

  /** Removes commits; returns those that were built on them. Call `replay` for their entities next. */
  remove(decided: readonly Pending[]): Pending[] {
    const names = new Set(decided.map((one) => one.key));
    for (const key of new Set(decided.flatMap((one) => one.written()))) {
      this.aboutToChange(key);
      const left = this.byEntity.get(key)!.filter((layer) => !names.has(layer.pending.key));
      if (left.length) this.byEntity.set(key, left);
      else this.byEntity.delete(key);
    }
    const built = new Set<string>();
    for (const pending of decided) {
      for (const above of this.dependentsOf.get(pending.key) ?? []) built.add(above);
      this.dependentsOf.delete(pending.key);
      this.commits.delete(pending.key);
      this.byCommit.delete(pending.key);
      this.branches.set(pending.branch, this.branches.get(pending.branch)! - 1);
    }
    return [...built].map((one) => this.commits.get(one)).filter((one) => one !== undefined);
  }

  /** Applies the layers of these entities anew; adds to them the others whose shown value may have changed.
   *
   * Whether a commit is shown depends only on the confirmed values and the commits before it. So the commits whose
   * layers were applied are judged from the oldest up; one that changes has the layers above it applied again.
   */
  replay(touched: Set<Key>, suspects: Iterable<Pending> = []): Set<Key> {
    if (!this.commits.size) return touched;
    const judged = new Judged();
    for (const pending of suspects) judged.push(pending);
    for (const key of touched) this.applyLayers(key, judged);
    for (let pending = judged.pop(); pending !== undefined; pending = judged.pop()) {
      if (this.mayShow(pending) === pending.isShown) continue;
      this.flip(pending);
      for (const key of pending.written()) {
        touched.add(key);
        this.applyLayers(key, judged);
      }
      for (const above of this.dependents(pending.key)) judged.push(above);
    }
    return touched;
  }

  private applyLayers(key: Key, met: Judged): void {
    const layers = this.byEntity.get(key);
    if (layers === undefined) return;
    let value = this.base(key);
    for (const layer of layers) {
      if (!layer.isAppliedTo(value)) {
        this.aboutToChange(key);
        layer.apply(value);
        met.push(layer.pending);
      }
      value = layer.shows;
    }
  }

  /** True if all its layers apply and every commit it builds on is shown or confirmed. */
  private mayShow(pending: Pending): boolean {
    if (pending.isIntegrated) return false;
    for (const layer of this.byCommit.get(pending.key)!.values()) if (!layer.applies) return false;
    for (const below of pending.depends) {
      const one = this.commits.get(below);
      if (one !== undefined && !one.isShown && !one.isIntegrated) return false;
    }
    return true;
  }

  private flip(pending: Pending): void {
    for (const key of pending.written()) this.aboutToChange(key);
    pending.isShown = !pending.isShown;
    for (const layer of this.byCommit.get(pending.key)!.values()) layer.invalidate();
  }
}
