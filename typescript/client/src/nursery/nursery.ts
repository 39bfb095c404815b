// The nursery: confirmed values, pending commits, and what is shown of both. Pure: no I/O and no clock (NURSERY-6).
import { restored as restoredError, type StemmaError } from "../errors.ts";
import type { AcceptedVerdict, Sync } from "../wire/messages.ts";
import { branchOf, type Cached, idOf, type Key, keyOf, nameKey } from "./entities.ts";
import { type AcceptedOwn, FrameApplier } from "./frames.ts";
import {
  type CommitRefusal, type Integrated, refusedByServer, refusedLocally, rejectedBecauseOf, withDependents,
} from "./outcomes.ts";
import { Overlay } from "./overlay.ts";
import type { Pending } from "./pending.ts";

/** How many refused commits, and how many entities of accepted ones, are remembered. */
const REMEMBERED_MAX = 10_000;

export class Nursery extends Overlay {
  /** Whose commits these are: everybody can see a session id, and use it for commits of their own. */
  private readonly principal: string | undefined;
  private readonly refusedNames = new Map<string, true>();
  private readonly accepted = new Map<Key, number>();
  /** How often the server was found to have another history: a version means something within one only. */
  history = 0;

  constructor(principal?: string) {
    super();
    this.principal = principal;
  }

  /** Where an earlier run of the app stood: nothing of it is cached, and it resumes from there (RESUME-4). */
  standAt(to: number, hash: string): void {
    this.confirmed.to = to;
    this.confirmed.hash = hash;
  }

  /** Undecided commits, the oldest first. */
  pending(): Pending[] {
    return [...this.layers.all()];
  }

  find(name: string): Pending | undefined {
    return this.layers.find(name);
  }

  get size(): number {
    return this.layers.size;
  }

  /** Whether an own commit that wrote it was accepted after this version: a read at it would miss that. */
  acceptedAfter(branch: string, id: string, version: number): boolean {
    return (this.accepted.get(keyOf(branch, id)) ?? 0) > version;
  }

  // ------------------------------------------------------------ own commits

  /** In the view at once (NURSERY-5); or refused at once, if one it was read through has been refused. */
  add(pending: Pending, bases: Iterable<readonly [string, Cached]> = []): CommitRefusal | undefined {
    const below = [...pending.depends].find((one) => this.refusedNames.has(one));
    if (below !== undefined) {
      remember(this.refusedNames, pending.key, true);
      const at = below.lastIndexOf(":");
      return rejectedBecauseOf(pending, { session: below.slice(0, at), local: Number(below.slice(at + 1)) });
    }
    for (const [id, cached] of bases) this.learn(keyOf(pending.branch, id), cached);
    this.layers.push(pending);
    this.changed(pending.written());
    return undefined;
  }

  /** A commit is refused outside of a frame; it and all that depend on it leave the view together. */
  refuse(name: string, error: StemmaError): CommitRefusal[] {
    const pending = this.layers.find(name);
    return this.refuseHere(pending === undefined ? [] : [pending], error);
  }

  /** Every commit that is not in the log is refused: what they read is another history (RESUME-4). */
  refuseAll(error: StemmaError): CommitRefusal[] {
    return this.refuseHere(this.pending().filter((one) => !one.isIntegrated), error);
  }

  private refuseHere(every: readonly Pending[], error: StemmaError): CommitRefusal[] {
    const touched = new Set<Key>();
    const refused = this.rejectWithDependents(every.map((one) => refusedLocally(one, error, this.to)), touched);
    this.dropUnneeded(refused.map((one) => one.pending));
    this.changed(touched);
    return refused;
  }

  /** Takes commits out without a verdict: another tab has them now. */
  handOver(names: ReadonlySet<string>): void {
    const found = this.pending().filter((one) => names.has(one.key));
    const keys = new Set(found.flatMap((one) => one.written()));
    const built = this.layers.remove(found);
    const touched = this.layers.replay(keys, built);
    this.dropUnneeded(found);
    this.changed(touched);
  }

  /** Hides commits that the server may already have applied, so that they are not applied twice locally. */
  passOver(names: Iterable<string>): void {
    const found = [...names].map((one) => this.layers.find(one)).filter((one) => one !== undefined);
    for (const pending of found) pending.isIntegrated = true;
    this.changed(this.layers.replay(new Set(), found));
  }

  // ------------------------------------------------------------ answers

  /** What a query said of an entity that was wanted, as of this version; whether that settled the matter (SYNC-4). */
  answered(key: Key, cached: Cached | undefined, version: number): boolean {
    if (this.confirmed.isDoubtful(key)) {
      if (cached === undefined || this.confirmed.lastVersionOf(key) > version) return false;
      this.changeBeneath([key], () => this.confirmed.put(key, { ...cached, asOf: null }));
    } else if (this.layers.has(key) && cached !== undefined) {
      if (this.acceptedAfter(branchOf(key), idOf(key), version)) return false;
      this.learn(key, { ...cached, asOf: version });
    }
    return true;
  }

  /** Lies beneath pending layers from now on, unless a watch knows better or more is known already. */
  private learn(key: Key, cached: Cached): void {
    const asOf = cached.asOf ?? this.to;
    const known = this.confirmed.get(key);
    const isNewer = known === undefined || (known.asOf !== null && known.asOf < asOf);
    const isOld = this.isLocal(branchOf(key), idOf(key)) || this.acceptedAfter(branchOf(key), idOf(key), asOf);
    if (!isNewer || isOld || this.confirmed.isWatched(key)) return;
    this.aboutToChange(key);
    this.confirmed.put(key, { ...cached, asOf });
    if (this.layers.has(key)) this.changed(this.layers.replay(new Set([key])));
  }

  // ------------------------------------------------------------ frames

  /** Applies a frame whole: facts, verdicts, what entered and left; then says what changed (SYNC-1).
   *
   * `session` is the one opened on this connection; `issued` is the highest local that was made in it here.
   */
  integrate(frame: Sync, session: string, issued: number): Integrated {
    const touched = frame.reset === undefined ? new Set<Key>() : this.startOver();
    if (frame.reset === "history") this.forgetHistory();
    const { own, strangers } = this.ownOf(frame, session, issued);
    const applier = new FrameApplier(this.confirmed, frame, touched, (key) => this.aboutToChange(key));
    applier.applyFacts(own, this.layers);
    applier.enter();
    applier.leave();
    const ended = this.endWatches(frame, applier.moved);
    this.confirmed.to = frame.to;
    this.confirmed.hash = frame.hash;
    this.dropOrphans(applier.moved);
    addAll(touched, applier.moved);
    if (frame.filled?.length || ended.length) {
      applier.fill();
      addAll(touched, this.forgetCovered(), this.uncached());
    }
    const suspects = [...this.settle(own, touched), ...this.markIntegrated(frame)];
    this.layers.replay(touched, suspects);
    const refused = this.rejectWithDependents(this.refusals(frame, session), touched);
    this.dropUnneeded([...own, ...refused].map((one) => one.pending));
    this.changed(touched);
    for (const number of frame.filled ?? []) this.watchers.get(number)?.fill();
    const confirmed = own.map(({ pending, verdict: { version, time, hash } }) => ({ pending, version, time, hash }));
    return { confirmed, refused, ended, strangers };
  }

  /** Whether facts may have been left out because their commit was pending here (SYNC-2), and it is not: it was
   * refused here, or it is another one of that name. Somebody works with a copy of this journal. */
  isBlindTo(frame: Sync, session: string): boolean {
    if (frame.reset !== undefined) return false; // then values come, and no facts
    const sent = new Set((frame.commits ?? []).map((item) => item.version));
    return (frame.verdicts ?? []).some((verdict) => {
      if (verdict.verdict !== "accepted" || verdict.version <= frame.from || sent.has(verdict.version)) return false;
      const pending = this.layers.find(nameKey({ session: verdict.session ?? session, local: verdict.local }));
      return pending === undefined || pending.request !== verdict.request;
    });
  }

  /** The accepted commits that are pending here; and whether others turned up that were never made here. */
  private ownOf(frame: Sync, session: string, issued: number): { own: AcceptedOwn[]; strangers: boolean } {
    const own = new Map<string, AcceptedOwn>();
    let strangers = false;
    for (const verdict of frame.verdicts ?? []) {
      const name = nameKey({ session: verdict.session ?? session, local: verdict.local });
      const pending = this.layers.find(name);
      const isAccepted = verdict.verdict === "accepted";
      if (pending === undefined) {
        const isOurs = verdict.session !== undefined || verdict.local <= issued;
        strangers ||= !isOurs || (isAccepted && this.refusedNames.has(name));
      } else if (isAccepted) {
        const isOurs = verdict.request === pending.request;
        strangers ||= !isOurs;
        if (isOurs && !own.has(name)) own.set(name, { pending, verdict: verdict as AcceptedVerdict });
      }
    }
    return { own: [...own.values()], strangers };
  }

  /** Removes accepted commits from the layers; returns hidden commits built on them, which may be shown now. */
  private settle(own: readonly AcceptedOwn[], touched: Set<Key>): Pending[] {
    for (const { pending, verdict } of own) {
      for (const key of pending.written()) {
        touched.add(key);
        remember(this.accepted, key, verdict.version);
      }
    }
    return this.layers.remove(own.map((one) => one.pending)).filter((one) => !one.isShown);
  }

  /** Marks own commits of older sessions whose facts are in the frame; their verdicts come after a resend. */
  private markIntegrated(frame: Sync): Pending[] {
    const found = (frame.commits ?? []).map(({ session, local, author }) => {
      const isOwn = session !== undefined && local !== undefined && [undefined, author].includes(this.principal);
      return isOwn ? this.layers.find(nameKey({ session, local })) : undefined;
    });
    const integrated = found.filter((one) => one !== undefined);
    for (const pending of integrated) pending.isIntegrated = true;
    return integrated;
  }

  private refusals(frame: Sync, session: string): CommitRefusal[] {
    const found: CommitRefusal[] = [];
    for (const verdict of frame.verdicts ?? []) {
      if (verdict.verdict !== "rejected") continue;
      const pending = this.layers.find(nameKey({ session: verdict.session ?? session, local: verdict.local }));
      if (pending !== undefined) found.push(refusedByServer(pending, verdict, frame.to));
    }
    return found;
  }

  /** Removes refused commits and their dependents; the rest is shown as if they had never been (NURSERY-3). */
  private rejectWithDependents(refused: readonly CommitRefusal[], touched: Set<Key>): CommitRefusal[] {
    if (!refused.length) return [];
    const every = withDependents(refused, this.layers);
    for (const one of every) remember(this.refusedNames, one.pending.key, true);
    const keys = new Set(every.flatMap((one) => one.pending.written()));
    this.layers.remove(every.map((one) => one.pending));
    addAll(touched, this.layers.replay(keys));
    return every;
  }

  private endWatches(frame: Sync, moved: Set<Key>): [number, StemmaError][] {
    const ended: [number, StemmaError][] = [];
    for (const one of frame.ended ?? []) {
      const membership = this.confirmed.watches.get(one.watch);
      if (membership === undefined) continue;
      for (const id of membership.ids) {
        this.aboutToChange(keyOf(membership.branch, id));
        moved.add(keyOf(membership.branch, id));
      }
      this.confirmed.empty(one.watch);
      const error = restoredError(one);
      this.watchers.get(one.watch)?.end(error);
      this.watchers.delete(one.watch);
      this.confirmed.watches.delete(one.watch);
      ended.push([one.watch, error]);
    }
    return ended;
  }

  /** Forgets everything confirmed; pending commits stay (RESUME-1, RESUME-4). */
  private startOver(): Set<Key> {
    for (const view of this.views) for (const id of this.idsUnder(view.branch, "")) view.retain(id);
    const forgotten = this.confirmed.startOver();
    for (const watcher of this.watchers.values()) watcher.unfill();
    for (const key of this.layers.keys()) forgotten.add(key);
    return forgotten;
  }

  /** Versions of another history, and what was integrated there, say nothing about this one (RESUME-4). */
  private forgetHistory(): void {
    this.history += 1;
    this.accepted.clear();
    for (const pending of this.layers.all()) pending.isIntegrated = false;
  }

  // ------------------------------------------------------------ what is kept and what is not

  /** Forgets entities that left their last watch: earlier facts were not sent, so the cache may be stale. */
  private dropOrphans(moved: Iterable<Key>): void {
    for (const key of moved) {
      const isRead = typeof this.confirmed.get(key)?.asOf === "number";
      if (!this.confirmed.isWatched(key) && !isRead) this.confirmed.forget(key);
    }
  }

  /** What was read once, and a filled watch now names and does not hold: it is gone. */
  private forgetCovered(): Key[] {
    const covered = [...this.layers.keys()].filter(
      (key) => typeof this.confirmed.get(key)?.asOf === "number" && this.confirmed.covered(key),
    );
    for (const key of covered) {
      this.aboutToChange(key);
      this.confirmed.forget(key);
    }
    return covered;
  }

  /** Forgets entities that were cached only beneath commits that are decided now. */
  private dropUnneeded(decided: readonly Pending[]): void {
    for (const pending of decided) {
      for (const key of pending.written()) {
        if (!this.layers.has(key) && !this.confirmed.isWatched(key)) this.confirmed.forget(key);
      }
    }
  }
}

function addAll(touched: Set<Key>, ...more: Iterable<Key>[]): void {
  for (const keys of more) for (const key of keys) touched.add(key);
}

/** Notes it as the newest, and forgets the oldest past the bound. */
function remember<V>(memory: Map<string, V>, key: string, value: V): void {
  memory.delete(key);
  memory.set(key, value);
  if (memory.size > REMEMBERED_MAX) memory.delete(memory.keys().next().value!);
}
