// The declared reads of a draft: each place once, as few as claim the same (COMMIT-2, COMMIT-4).
import { limitExceeded } from "../errors.ts";
import { type CommitName, nameKey, type Shown, type ShownLayer } from "../nursery/entities.ts";
import type { PlannedRead } from "../nursery/plans.ts";
import * as pointer from "../values/pointer.ts";
import type { Limits } from "./inputs.ts";

/** The most paths that one patch declares; one that touches more declares the whole entity. */
export const PATHS_MAX = 32;
/** A server takes a patch of more paths for one of the whole entity. */
const LAYER_PATHS_MAX = 64;

/** What was read, and as it was shown then. The reads themselves are made at the end, once it is known which. */
export class Reads {
  private readonly limits: Limits;
  private readonly places = new Map<string, Map<string, Shown>>();
  private readonly prefixes = new Map<string, PlannedRead>();
  private count = 0;

  constructor(limits: Limits) {
    this.limits = limits;
  }

  /** A read of a path. Of two at different versions the older is kept: it claims more. */
  declare(id: string, path: string, shown: Shown): void {
    let places = this.places.get(id);
    if (places === undefined) this.places.set(id, (places = new Map()));
    const before = places.get(path);
    if (before === undefined) this.add();
    else if (before.basis <= shown.basis) return;
    places.set(path, shown);
  }

  /** A read of all that is under a prefix, through every commit that is pending there. */
  declarePrefix(prefix: string, version: number, layers: ReadonlyMap<string, readonly ShownLayer[]>): void {
    if (this.prefixes.has(prefix)) return;
    this.add();
    const names = new Map<string, CommitName>();
    for (const pile of layers.values()) for (const layer of pile) names.set(nameKey(layer.name), layer.name);
    const through = [...names.values()].sort((a, b) => a.local - b.local || (a.session < b.session ? -1 : 1));
    this.prefixes.set(prefix, { version, prefix, through });
  }

  /** The reads to declare, without those that a wider one of the same entity covers. */
  planned(): PlannedRead[] {
    const reads = [...this.prefixes.values(), ...this.narrowest()];
    for (const read of reads) {
      const maximum = this.limits.locals_max;
      if (read.through.length > maximum) throw limitExceeded("locals_max", maximum, read.through.length);
    }
    return reads;
  }

  private *narrowest(): Iterable<PlannedRead> {
    for (const [id, places] of this.places) {
      for (const [path, shown] of places) {
        if (places.size > 1 && isCovered(path, shown, places)) continue;
        yield { version: shown.basis, id, path, through: through(shown.layers, path) };
      }
    }
  }

  /** One more; only where they seem too many are they counted as they will be sent. */
  private add(): void {
    this.count += 1;
    if (this.count <= this.limits.reads_max) return;
    for (const places of this.places.values()) {
      for (const [path, shown] of [...places]) if (isCovered(path, shown, places)) places.delete(path);
    }
    this.count = 1 + this.prefixes.size;
    for (const places of this.places.values()) this.count += places.size;
    if (this.count > this.limits.reads_max) throw limitExceeded("reads_max", this.limits.reads_max, this.count);
  }
}

/** The pending commits that a read of this path sees, in their order (COMMIT-4). */
export function through(layers: readonly ShownLayer[], path: string): CommitName[] {
  return layers.filter((layer) => isUnder(layer, path)).map((layer) => layer.name);
}

function isUnder(layer: ShownLayer, path: string): boolean {
  if (path === pointer.ROOT || layer.paths === null || layer.paths.length > LAYER_PATHS_MAX) return true;
  return layer.paths.some((written) => pointer.overlaps(written, path));
}

/** Whether a wider read claims as much: at the same version, and through at least the same commits. */
function isCovered(path: string, shown: Shown, places: ReadonlyMap<string, Shown>): boolean {
  for (let above = path; above !== ""; ) {
    above = pointer.parent(above);
    const wider = places.get(above);
    if (wider !== undefined && (wider === shown || claimsTheSame(wider, shown))) return true;
  }
  return false;
}

function claimsTheSame(one: Shown, other: Shown): boolean {
  const names = (shown: Shown): string => shown.layers.map((layer) => nameKey(layer.name)).join();
  return one.basis === other.basis && names(one) === names(other);
}
