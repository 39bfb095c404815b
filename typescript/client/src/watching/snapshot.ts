// What a watch shows at one moment: an immutable map in the order of ids, cheap to make from the one before.
//
// A snapshot is a shared base and a small difference to it, so that one change among 10,000 entities copies the
// difference and not the 10,000. Its sorted form is made when somebody walks through it.
import { sortedIds } from "../nursery/view.ts";

const DIFFERENCE_MAX = 128;

export class Snapshot<V> implements ReadonlyMap<string, V> {
  readonly size: number;
  /** Sorted. */
  private readonly base: ReadonlyMap<string, V>;
  /** Undefined for what is in the base and no longer here. */
  private readonly difference: ReadonlyMap<string, V | undefined>;
  private sorted: ReadonlyMap<string, V> | undefined;

  private constructor(base: ReadonlyMap<string, V>, difference: ReadonlyMap<string, V | undefined>, size: number) {
    this.base = base;
    this.difference = difference;
    this.size = size;
  }

  static empty<V>(): Snapshot<V> {
    return new Snapshot<V>(new Map(), new Map(), 0);
  }

  /** The snapshot after these entities came or changed and those left; what came is sorted. */
  changed(entered: ReadonlyMap<string, V>, updated: ReadonlyMap<string, V>, left: readonly string[]): Snapshot<V> {
    if (this.size === 0) return new Snapshot<V>(entered, new Map(), entered.size);
    const difference = new Map(this.difference);
    for (const [id, value] of entered) difference.set(id, value);
    for (const [id, value] of updated) difference.set(id, value);
    for (const id of left) difference.set(id, undefined);
    const size = this.size + entered.size - left.length;
    const made = new Snapshot(this.base, difference, size);
    return difference.size > DIFFERENCE_MAX ? new Snapshot<V>(made.all(), new Map(), size) : made;
  }

  get(id: string): V | undefined {
    return this.difference.has(id) ? this.difference.get(id) : this.base.get(id);
  }

  has(id: string): boolean {
    return this.get(id) !== undefined;
  }

  keys(): MapIterator<string> {
    return this.all().keys();
  }

  values(): MapIterator<V> {
    return this.all().values();
  }

  entries(): MapIterator<[string, V]> {
    return this.all().entries();
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries();
  }

  forEach(callback: (value: V, key: string, map: ReadonlyMap<string, V>) => void): void {
    for (const [id, value] of this) callback(value, id, this);
  }

  private all(): ReadonlyMap<string, V> {
    this.sorted ??= this.difference.size ? this.merged() : this.base;
    return this.sorted;
  }

  private merged(): ReadonlyMap<string, V> {
    const ids = [...this.base.keys()].filter((id) => !this.difference.has(id));
    for (const [id, value] of this.difference) if (value !== undefined) ids.push(id);
    return new Map(sortedIds(ids).map((id) => [id, this.get(id)!]));
  }
}
