// One watch on the client: what was published to the app, and the next change (NURSERY-4).
//
// Stage 1 evaluates no schema: a watch by id or prefix shows what is there, own pending writes included; a watch with
// a schema or a path shows what the server says it holds, with pending values on top.
import type { StemmaError } from "../errors.ts";
import { ABSENT, isNothing, type Seen, UNKNOWN } from "../nursery/entities.ts";
import type { Watched } from "../nursery/overlay.ts";
import { sortedIds } from "../nursery/view.ts";
import { equal, type Json } from "../values/json.ts";
import type { Query } from "../wire/messages.ts";
import { Snapshot } from "./snapshot.ts";

/** Ids that are remembered as changed while the app is slow; past that, everything is looked at anew. */
const MARKS_MAX = 10_000;

/** What a watcher looks at. */
export interface WatchOverlay {
  readonly to: number;
  value(branch: string, id: string): Seen;
  members(watch: number): ReadonlySet<string>;
  under(branch: string, prefix: string): Map<string, Seen>;
}

/** Takes the app from what it was told last to what is shown now; everything in it is in the order of ids. */
export interface Change<V = Json> {
  /** The confirmed version it is as of; own pending writes are shown on top. */
  readonly version: number;
  readonly entered: ReadonlyMap<string, V>;
  readonly updated: ReadonlyMap<string, V>;
  readonly left: readonly string[];
}

export class Watcher implements Watched {
  readonly number: number;
  readonly query: Query;
  readonly branch: string;
  /** What it names without a schema: if it is filled and does not hold one of these, that one is not there. */
  readonly names: ReadonlySet<string>;
  readonly prefixes: readonly string[];
  /** Whether own pending writes move entities in and out of it at once. */
  readonly isPlain: boolean;
  error: StemmaError | undefined;
  /** What the app was told last. */
  published: Snapshot<Json> = Snapshot.empty();
  private marked = new Set<string>();
  private isAnew = true;
  /** A member is not known: nothing is told until something changes about that (SYNC-4). */
  private isHeldBack = false;
  private filled = false;
  private hasBegun = false;

  constructor(number: number, query: Query) {
    this.number = number;
    this.query = query;
    this.branch = query.branch ?? "main";
    const plain = query.roots.filter((root) => root.schema === undefined && !root.path);
    this.isPlain = plain.length === query.roots.length;
    this.names = new Set(plain.map((root) => root.id).filter((id) => !id.endsWith("*")));
    this.prefixes = plain.map((root) => root.id).filter((id) => id.endsWith("*")).map((id) => id.slice(0, -1));
  }

  // ------------------------------------------------------------ what the nursery says

  /** Whether the server has sent all of it: it is shown from here on (SYNC-7). */
  get isFilled(): boolean {
    return this.filled && this.error === undefined;
  }

  mark(ids: Iterable<string>): void {
    this.isHeldBack = false;
    if (this.isAnew) return;
    for (const id of ids) if (!this.isPlain || this.covers(id)) this.marked.add(id);
    if (this.marked.size > MARKS_MAX) this.lookAnew();
  }

  fill(): void {
    this.filled = true;
  }

  /** The server sends all of it again. What was told stays: once filled, only the difference is told. */
  unfill(): void {
    this.filled = false;
    this.isHeldBack = false;
    this.lookAnew();
  }

  end(error: StemmaError): void {
    this.error = error;
    this.lookAnew();
  }

  covers(id: string): boolean {
    return this.names.has(id) || this.prefixes.some((prefix) => id.startsWith(prefix));
  }

  private lookAnew(): void {
    this.isAnew = true;
    this.marked = new Set();
  }

  // ------------------------------------------------------------ what the app is told

  /** Whether `take` might give a change. */
  hasNews(): boolean {
    return this.isFilled && !this.isHeldBack && (this.isAnew || this.marked.size > 0);
  }

  /** The change from what was published last to what is shown now. The first brings what is there, also nothing. */
  take(overlay: WatchOverlay): Change | undefined {
    if (!this.hasNews()) return undefined;
    const isWhole = this.isAnew;
    const members = overlay.members(this.number);
    const seen = isWhole ? this.everything(overlay) : this.look(overlay, this.marked);
    for (const [id, value] of seen) {
      if (value === UNKNOWN && members.has(id)) {
        this.lookAnew();
        this.isHeldBack = true;
        return undefined;
      }
    }
    this.isAnew = false;
    this.marked = new Set();
    const change = this.publish(seen, overlay.to, isWhole);
    const isFirst = !this.hasBegun;
    this.hasBegun = true;
    return isFirst || change.entered.size || change.updated.size || change.left.length ? change : undefined;
  }

  private everything(overlay: WatchOverlay): Map<string, Seen> {
    if (!this.isPlain) return this.look(overlay, overlay.members(this.number));
    const found = this.look(overlay, this.names);
    return this.prefixes.map((prefix) => overlay.under(this.branch, prefix)).reduce(merged, found);
  }

  private look(overlay: WatchOverlay, ids: Iterable<string>): Map<string, Seen> {
    const members = this.isPlain ? undefined : overlay.members(this.number);
    const found = new Map<string, Seen>();
    for (const id of ids) {
      const isOut = members !== undefined && !members.has(id);
      found.set(id, isOut ? ABSENT : overlay.value(this.branch, id));
    }
    return found;
  }

  /** The difference between what was published and what is shown now, which becomes what was published. */
  private publish(seen: Map<string, Seen>, version: number, isWhole: boolean): Change {
    const before = this.published;
    const entered = new Map<string, Json>();
    const updated = new Map<string, Json>();
    const left = isWhole ? [...before.keys()].filter((id) => !seen.has(id)) : [];
    for (const id of sortedIds(seen.keys())) {
      const value = seen.get(id)!;
      const old = before.get(id);
      if (isNothing(value)) {
        if (old !== undefined) left.push(id);
      } else if (old === undefined) entered.set(id, value);
      else if (!equal(old, value)) updated.set(id, value);
    }
    if (entered.size || updated.size || left.length) this.published = before.changed(entered, updated, left);
    return { version, entered, updated, left: sortedIds(left) };
  }
}

/** Both together; the larger one is not copied. */
function merged(one: Map<string, Seen>, other: Map<string, Seen>): Map<string, Seen> {
  if (one.size > other.size) return merged(other, one);
  for (const [id, value] of one) other.set(id, value);
  return other;
}
