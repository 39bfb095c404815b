// A view: confirmed with the pending layers on top, as it was when it was captured (NURSERY-2).
import type { Json } from "../values/json.ts";
import type { WatchCoverage } from "./confirmed.ts";
import { ABSENT, type Key, keyOf, type Shown, type ShownLayer, type Seen, UNKNOWN } from "./entities.ts";
import type { EntityLayer } from "./layers.ts";
import { after, DOES_NOT_APPLY } from "./operations.ts";

/** Where a view reads entities that have not changed since it was captured. */
export interface ViewSource {
  present(key: Key, to: number): Shown | undefined;
  shownLayers(key: Key): readonly EntityLayer[];
  idsUnder(branch: string, prefix: string): Set<string>;
}

/** Immutable and free to make: an entity is retained for the view just before it changes. */
export class NurseryView {
  readonly branch: string;
  readonly to: number;
  private readonly source: ViewSource;
  private readonly coverage: WatchCoverage;
  private readonly retained = new Map<string, { shown: Shown | undefined; layers: readonly EntityLayer[] }>();

  constructor(source: ViewSource, branch: string, to: number, coverage: WatchCoverage) {
    this.source = source;
    this.branch = branch;
    this.to = to;
    this.coverage = coverage;
  }

  /** The entity as it was; undefined if it is not in the view: neither held, nor written, nor known to be absent. */
  shown(id: string): Shown | undefined {
    const retained = this.retained.get(id);
    if (retained !== undefined) return retained.shown;
    const now = this.source.present(keyOf(this.branch, id), this.to);
    if (now === undefined) return this.coverage.has(id) ? { value: ABSENT, basis: this.to, layers: [] } : undefined;
    return now.value === UNKNOWN && !now.layers.length ? undefined : now;
  }

  /** Everything under the prefix; undefined unless a filled watch without a schema covers all of it. */
  listing(prefix: string): Map<string, Shown> | undefined {
    if (!this.coverage.covers(prefix)) return undefined;
    const found = new Map<string, Shown>();
    for (const id of this.ids(prefix)) {
      const shown = this.shown(id);
      if (shown === undefined || shown.value === UNKNOWN) return undefined;
      if (shown.value !== ABSENT) found.set(id, shown);
    }
    return found;
  }

  /** The entities under the prefix that pending commits wrote when the view was captured. */
  layersUnder(prefix: string): Map<string, readonly ShownLayer[]> {
    const found = new Map<string, readonly ShownLayer[]>();
    for (const id of this.ids(prefix)) {
      const layers = this.shown(id)?.layers ?? [];
      if (layers.length) found.set(id, layers);
    }
    return found;
  }

  /** What the view would show if the confirmed value at its version were this one. */
  replayed(id: string, base: Json | typeof ABSENT): Shown {
    let value: Seen = base;
    const layers: ShownLayer[] = [];
    for (const layer of this.layersOf(id)) {
      const over = after(value, layer.writes);
      if (over === DOES_NOT_APPLY) continue;
      value = over;
      layers.push({ name: layer.pending.name, paths: layer.paths, value });
    }
    return { value, basis: this.to, layers };
  }

  /** Called before the entity changes: retains what the view shows of it. */
  retain(id: string): void {
    if (!this.retained.has(id)) this.retained.set(id, { shown: this.shown(id), layers: this.layersOf(id) });
  }

  private layersOf(id: string): readonly EntityLayer[] {
    return this.retained.get(id)?.layers ?? this.source.shownLayers(keyOf(this.branch, id));
  }

  private ids(prefix: string): string[] {
    const ids = this.source.idsUnder(this.branch, prefix);
    for (const id of this.retained.keys()) if (id.startsWith(prefix)) ids.add(id);
    return sortedIds(ids);
  }
}

const SURROGATE = /[\ud800-\udfff]/;

/** Ids in their order: by code point, as every server has it. JavaScript's own order differs only with surrogates. */
export function sortedIds(ids: Iterable<string>): string[] {
  const all = [...ids];
  return all.some((id) => SURROGATE.test(id)) ? all.sort(byCodePoint) : all.sort();
}

export function byCodePoint(one: string, other: string): number {
  for (let at = 0; at < one.length && at < other.length; at += 1) {
    const [a, b] = [one.charCodeAt(at), other.charCodeAt(at)];
    if (a === b) continue;
    const [aHigh, bHigh] = [a >= 0xd800 && a < 0xe000, b >= 0xd800 && b < 0xe000];
    return aHigh === bHigh ? a - b : aHigh ? 1 : -1; // surrogates stand for code points above all others
  }
  return one.length - other.length;
}
