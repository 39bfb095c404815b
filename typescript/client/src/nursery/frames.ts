// Applying a frame to what is confirmed, step by step as docs/spec/04-protocol.md has it (SYNC-1..4).
//
// A JSON client holds a hash only where a message names it. Where the hash is not known, the comparison is left out.
import { fromBase64 } from "../values/bytes.ts";
import { factHash } from "../values/hashes.ts";
import { encode } from "../values/msgpack.ts";
import type { AcceptedVerdict, FactItem, Sync } from "../wire/messages.ts";
import type { Confirmed } from "./confirmed.ts";
import { type Cached, type Key, keyOf, type Seen, UNKNOWN } from "./entities.ts";
import type { PendingLayers } from "./layers.ts";
import { after, DOES_NOT_APPLY } from "./operations.ts";
import type { Pending } from "./pending.ts";

/** An own commit that was accepted, and what the verdict says of its facts. */
export interface AcceptedOwn {
  readonly pending: Pending;
  readonly verdict: AcceptedVerdict;
}

/** Applies one frame, and adds to `touched` the entities whose confirmed value, basis or membership changed. */
export class FrameApplier {
  /** Entities that a watch may have ceased to hold. */
  readonly moved = new Set<Key>();
  private readonly confirmed: Confirmed;
  private readonly frame: Sync;
  private readonly touched: Set<Key>;
  private readonly aboutToChange: (key: Key) => void;
  private names: Map<Key, boolean> | undefined;
  private readonly leaving: Set<Key>;

  constructor(confirmed: Confirmed, frame: Sync, touched: Set<Key>, aboutToChange: (key: Key) => void) {
    this.confirmed = confirmed;
    this.frame = frame;
    this.touched = touched;
    this.aboutToChange = aboutToChange;
    this.leaving = this.ceasing();
  }

  /** What enters, and whether its value is in the frame. The first frame of a watch is long and does not need this. */
  private get entering(): ReadonlyMap<Key, boolean> {
    if (this.names === undefined) {
      this.names = new Map();
      for (const { branch, id, body } of this.frame.entered ?? []) {
        const key = keyOf(branch, id);
        this.names.set(key, body !== undefined || this.names.get(key) === true);
      }
    }
    return this.names;
  }

  /** What no watch holds after this frame: the facts of others before an own one are then not sent. */
  private ceasing(): Set<Key> {
    const { confirmed, frame } = this;
    const leaving = new Map<Key, number>();
    const count = (branch: string, id: string): void => {
      const key = keyOf(branch, id);
      leaving.set(key, (leaving.get(key) ?? 0) + 1);
    };
    for (const left of frame.left ?? []) if (confirmed.members(left.watch).has(left.id)) count(left.branch, left.id);
    for (const ended of frame.ended ?? []) {
      const membership = confirmed.watches.get(ended.watch);
      if (membership !== undefined) for (const id of membership.ids) count(membership.branch, id);
    }
    const gone = [...leaving].filter(([key, times]) => times >= confirmed.holders(key) && !this.entering.has(key));
    return new Set(gone.map(([key]) => key));
  }

  // ------------------------------------------------------------ facts, by version

  /** Goes through the commits and the own accepted ones together, by version. */
  applyFacts(own: readonly AcceptedOwn[], layers: PendingLayers): void {
    const commits = new Map((this.frame.commits ?? []).map((item) => [item.version, item]));
    const accepted = new Map(own.map((one) => [one.verdict.version, one]));
    const versions = [...new Set([...commits.keys(), ...accepted.keys()])].sort((one, other) => one - other);
    for (const version of versions) {
      const item = commits.get(version);
      for (const fact of item?.facts ?? []) this.applyFact(fact, keyOf(fact.branch ?? item!.branch!, fact.id), version);
      const mine = accepted.get(version);
      if (mine !== undefined) this.applyOwn(mine, layers, version > this.frame.from && item === undefined);
    }
  }

  private isPassedOver(key: Key): boolean {
    return this.entering.get(key) === true || this.leaving.has(key);
  }

  private applyFact(fact: FactItem, key: Key, version: number): void {
    if (!this.confirmed.isWatched(key) || this.isPassedOver(key)) return;
    const cached = this.confirmed.get(key);
    const isGone = fact.kind !== "delete" && fact.body === undefined;
    if (cached === undefined || isGone || (cached.hash !== null && cached.hash !== fact.parent)) {
      return this.doubt(key, version);
    }
    const op = fact.kind === "checkpoint" ? "set" : fact.kind;
    const value = after(cached.value, [fact.body === undefined ? { op } : { op, value: fact.body }]);
    if (value === DOES_NOT_APPLY) return this.doubt(key, version);
    this.put(key, { value: value as Cached["value"], version, hash: null, asOf: null });
  }

  /** The facts are the operations that were sent. What is watched has them already unless they are news; what is only
   * cached has them if it was read later. */
  private applyOwn(own: AcceptedOwn, layers: PendingLayers, isNews: boolean): void {
    const { pending, verdict } = own;
    for (const [id, indexes] of pending.byId) {
      const key = keyOf(pending.branch, id);
      const cached = this.confirmed.get(key);
      if (this.confirmed.isWatched(key) && (!isNews || this.isPassedOver(key))) continue;
      if (cached === undefined) {
        if (!this.hasPassed(key, own)) this.begin(key, own, id, indexes);
      } else if (cached.asOf === null || cached.asOf < verdict.version) {
        this.continue(key, cached, own, id, layers.shownOn(pending, key, cached.value));
      }
    }
  }

  /** True if the commit's facts are no longer current: it was integrated before, or a filled watch covers the entity
   * and does not hold it after this frame, because others removed it since. */
  private hasPassed(key: Key, own: AcceptedOwn): boolean {
    return own.pending.isIntegrated || (!this.entering.has(key) && this.confirmed.covered(key));
  }

  /** Nothing was cached: a `set` or `delete` among the operations says what is there all the same. */
  private begin(key: Key, own: AcceptedOwn, id: string, indexes: readonly number[]): void {
    const { version, hashes } = own.verdict;
    const value = after(UNKNOWN, own.pending.writesTo(id));
    if (value === UNKNOWN || value === DOES_NOT_APPLY || this.confirmed.isWatched(key)) return this.doubt(key, version);
    this.put(key, { value, version, hash: hashes[indexes.at(-1)!] ?? null, asOf: version });
  }

  /** What was shown becomes confirmed if the hashes agree: then nothing came in between. */
  private continue(key: Key, cached: Cached, own: AcceptedOwn, id: string, shown: Seen | undefined): void {
    const { version, hashes } = own.verdict;
    const hash = hashes[own.pending.byId.get(id)!.at(-1)!] ?? null;
    if (cached.hash !== null && chained(cached.hash, own, id) !== hash) return this.doubt(key, version);
    const value = shown ?? after(cached.value, own.pending.writesTo(id));
    if (value === DOES_NOT_APPLY || value === UNKNOWN) return this.doubt(key, version);
    this.put(key, { value, version, hash, asOf: cached.asOf === null ? null : version });
  }

  private put(key: Key, cached: Cached): void {
    this.change(key);
    this.confirmed.put(key, cached);
  }

  private doubt(key: Key, version: number): void {
    this.change(key);
    this.confirmed.doubt(key, version);
  }

  private change(key: Key): void {
    this.aboutToChange(key);
    this.touched.add(key);
  }

  // ------------------------------------------------------------ what enters and leaves

  /** Takes the values first, whichever watch they came for; then who holds them. */
  enter(): void {
    const entered = this.frame.entered ?? [];
    for (const { branch, id, version, hash, body } of entered) {
      if (body !== undefined) this.put(keyOf(branch, id), { value: body, version, hash, asOf: null });
    }
    for (const one of entered) {
      const key = keyOf(one.branch, one.id);
      if (!this.confirmed.watches.has(one.watch)) {
        this.moved.add(key);
        continue;
      }
      const cached = this.confirmed.get(key);
      if (cached === undefined) this.change(key);
      if (this.confirmed.enter(one.watch, one.id, key, one.version)) this.touched.add(key);
      if (cached === undefined || (cached.hash !== null && cached.hash !== one.hash)) this.doubt(key, one.version);
      else if (cached.asOf !== null || cached.hash === null) this.put(key, { ...cached, asOf: null, hash: one.hash });
    }
  }

  leave(): void {
    for (const left of this.frame.left ?? []) {
      if (!this.confirmed.watches.has(left.watch)) continue;
      const key = keyOf(left.branch, left.id);
      this.aboutToChange(key);
      this.confirmed.leave(left.watch, left.id);
      this.moved.add(key);
    }
  }

  fill(): void {
    for (const watch of this.frame.filled ?? []) if (this.confirmed.watches.has(watch)) this.confirmed.fill(watch);
  }
}

/** The hash that the last of these operations has if they follow this parent (FACT-2). */
function chained(parent: string, own: AcceptedOwn, id: string): string {
  let hash = parent;
  for (const index of own.pending.byId.get(id)!) {
    const write = own.pending.writes[index]!;
    const salt = own.verdict.salts[index] ?? null;
    const body = write.value === undefined ? new Uint8Array() : encode(write.value);
    hash = factHash(write.op, id, hash, salt === null ? null : fromBase64(salt), body);
  }
  return hash;
}
