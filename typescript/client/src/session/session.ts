// A session: the nursery, the journal and the connection of one space, joined. `link` carries its text.
import { Conflict, limitExceeded, StemmaError } from "../errors.ts";
import type { CommitBase, ConfirmedCommit, Journal, JournaledCommit, JournalState, JournalStep, RejectedRecord, Standing } from "../journal/port.ts";
import { ABSENT, type Cached, type CommitName, keyOf, nameKey } from "../nursery/entities.ts";
import { Nursery } from "../nursery/nursery.ts";
import { type CommitRefusal, type Integrated, NOTHING_DECIDED, refusedLocally } from "../nursery/outcomes.ts";
import { named, type Pending, restored } from "../nursery/pending.ts";
import type { CommitPlan } from "../nursery/plans.ts";
import { type Json, parse, stringify } from "../values/json.ts";
import type { Connection, Event } from "../wire/connection.ts";
import type { Deferred, Kept, SessionOpen, Sync } from "../wire/messages.ts";
import { Losses } from "./losses.ts";
import { type Handle, Notifier, RejectedCommit, type RetryPort } from "./notifier.ts";
import { Outgoing } from "./outgoing.ts";
import { bounded, randomId, Requests } from "./requests.ts";
import type { Settings } from "./settings.ts";
import { Subscriptions } from "./subscriptions.ts";

/** Verdicts that say that this session is somebody else's too (NURSERY-5). */
const NEW_SESSION_CODES = ["identity_clash", "overtaken"];
const RESTORED = "The server went back to another history, and what this commit read is not in it. Read again and retry.";
const GONE_BACK = "The server went back to another history, and the versions that this write names are other commits there. Read again and retry.";
/** What a message has around the content of a commit, at most. */
const ENVELOPE = 200;
const SOCKET_FULL_MS = 20;
/** A larger base is not kept: after a restart it is read from the server. */
const BASE_CHARACTERS_MAX = 256 * 1024;

/** One space, as one principal. It outlives connections, and with a journal it outlives the page. */
export class ClientSession implements RetryPort {
  readonly space: string;
  readonly settings: Settings;
  readonly nursery: Nursery;
  readonly notifier = new Notifier();
  readonly requests: Requests;
  readonly subscriptions: Subscriptions;
  readonly journal: Journal;
  id: string;
  /** Whether the first frame of the connection has come. */
  isOpen = false;
  whyOffline: StemmaError | undefined;
  /** Why the journal cannot be written: nothing new is taken. */
  failure: StemmaError | undefined;
  /** Said to whoever comes after the end. */
  ended: StemmaError | undefined;
  lastFrameTime: number | undefined;
  reconnect: () => void = () => {};
  resubmit: (rejected: RejectedCommit) => Promise<unknown> = async () => undefined;
  onStatus: () => void = () => {};
  private readonly issued = new Map<string, number>();
  private readonly losses: Losses;
  private readonly outgoing: Outgoing;
  private connection: Connection | undefined;
  private send: (text: string) => boolean = () => true;
  private opened: string;
  private isSending = false;
  /** Whether a frame left out facts that are not known here: nothing more of its connection is taken. */
  private isBlind = false;
  private pendingCharacters = 0;
  private readonly journaled = new Set<string>();
  /** Undecided commits that an earlier connection may have carried: the server may have accepted them. */
  private readonly wasSent = new Set<string>();
  private readonly retrying = new Set<string>();

  constructor(space: string, principal: string, journal: Journal, state: JournalState, settings: Settings) {
    this.space = space;
    this.settings = settings;
    this.journal = journal;
    this.nursery = new Nursery(principal);
    this.id = this.opened = state.session;
    this.issued.set(this.id, 0);
    this.requests = new Requests(settings.askMs);
    this.subscriptions = new Subscriptions(this.nursery, this.requests);
    this.outgoing = new Outgoing((name) => this.nursery.find(name) !== undefined);
    this.losses = new Losses(state.confirmed);
    for (const record of state.rejected) this.notifier.rejected.set(nameKey(record.name), new RejectedCommit(record, this));
    this.restore(state);
    journal.onElsewhere(() => void this.lookAgain());
  }

  /** Puts the undecided commits of adopted sessions back, on what they lay on (NURSERY-5). */
  private restore(state: JournalState): void {
    if (state.standing !== undefined) this.nursery.standAt(state.standing.to, state.standing.hash);
    for (const one of state.pending) {
      const pending = restored(one.name, one.nonce, one.content);
      this.takeCharge(pending).markJournaled();
      this.nursery.add(pending, one.bases.map((base) => [base.id, cachedOf(base)] as const));
      this.journaled.add(pending.key);
      this.wasSent.add(pending.key);
    }
  }

  // ------------------------------------------------------------ own commits

  /** In the view at once, then into the journal, then to the server (NURSERY-5). What was read in a `history` that the
   * server no longer has is refused at once: its versions would be taken for those of this one (RESUME-4). */
  submit(plan: CommitPlan, history = this.nursery.history): Handle {
    const why = this.ended ?? this.failure;
    if (why !== undefined) throw why;
    const name = { session: this.id, local: this.issued.get(this.id)! + 1 };
    const pending = named(plan, name, randomId());
    this.checkRoom(pending);
    this.issued.set(this.id, name.local);
    const handle = this.takeCharge(pending);
    const restoredError = new Conflict({ count: 0 }, RESTORED, [], []);
    const refusal = history === this.nursery.history
      ? this.nursery.add(pending, plan.bases)
      : refusedLocally(pending, restoredError, this.nursery.to);
    if (refusal !== undefined) this.settle({ ...NOTHING_DECIDED, refused: [refusal] });
    else void this.keep(pending);
    this.subscriptions.wake();
    this.onStatus();
    return handle;
  }

  private async keep(pending: Pending): Promise<void> {
    if (this.journal.state !== "off") {
      try {
        await this.journal.write({ add: [journaledOf(pending, this.nursery)], ...this.standingStep() });
      } catch (error) {
        this.fail(error);
        return this.settle({ ...NOTHING_DECIDED, refused: this.nursery.refuse(pending.key, this.failure!) });
      }
    } else await undefined; // whoever writes does not wait, and what is written together goes together
    this.notifier.journaled(pending.key);
    if (this.nursery.find(pending.key) === undefined) return; // it was rejected meanwhile
    this.journaled.add(pending.key);
    this.outgoing.add(pending);
    this.flush();
  }

  private takeCharge(pending: Pending): Handle {
    this.pendingCharacters += pending.text.length;
    return this.notifier.begin(pending.name);
  }

  /** A full nursery says so before anything is applied: the app can wait with `settled`, or tell its user. */
  private checkRoom(pending: Pending): void {
    const { pendingMax, pendingCharactersMax } = this.settings;
    const all = this.pendingCharacters + pending.text.length;
    if (this.nursery.size >= pendingMax) throw limitExceeded("pending_max", pendingMax, this.nursery.size + 1);
    if (all > pendingCharactersMax) throw limitExceeded("pending_bytes_max", pendingCharactersMax, all);
    const maximum = this.requests.limits.message_bytes_max;
    const size = pending.text.length + ENVELOPE;
    if (size > maximum) throw limitExceeded("message_bytes_max", maximum, size);
  }

  async retry(rejected: RejectedCommit): Promise<unknown> {
    const key = nameKey(rejected.name);
    if (this.retrying.has(key) || !this.notifier.rejected.has(key)) {
      const why = "it was tried again or dropped already";
      throw new StemmaError("malformed", { path: "rejected", why }, `This commit is not among the rejected ones: ${why}.`);
    }
    this.retrying.add(key);
    try {
      const again = await this.resubmit(rejected);
      this.drop([rejected.name]);
      return again;
    } finally {
      this.retrying.delete(key);
    }
  }

  drop(names: readonly CommitName[]): void {
    const gone = names.filter((name) => this.notifier.rejected.delete(nameKey(name)));
    if (gone.length) this.write({ drop: gone });
    this.onStatus();
  }

  /** Another tab has changed something: rejected commits are shared by all of them. */
  async lookAgain(): Promise<void> {
    const records = await this.journal.rejected();
    const known = new Set(records.map((one) => nameKey(one.name)));
    for (const key of this.notifier.rejected.keys()) if (!known.has(key)) this.notifier.rejected.delete(key);
    for (const one of records) {
      const key = nameKey(one.name);
      if (!this.notifier.rejected.has(key)) this.notifier.rejected.set(key, new RejectedCommit(one, this));
    }
    this.onStatus();
  }

  // ------------------------------------------------------------ connections

  /** `session.open` without the signature: where the next connection continues (RESUME-1). */
  position(limits: Requests["limits"]): Omit<SessionOpen, "type" | "principal" | "signature"> {
    this.requests.limits = limits;
    const own = this.nursery.pending().filter((one) => one.name.session === this.id).map((one) => one.name.local);
    const { to, hash } = this.nursery;
    const lowest = own[0] ?? this.issued.get(this.id)! + 1;
    const watches = this.subscriptions.held();
    return {
      session: this.id, space: this.space,
      ...(to && hash !== null ? { to, hash } : {}),
      ...(lowest > 1 ? { lowest } : {}),
      ...(own.length ? { held: own.slice(0, limits.locals_max) } : {}),
      ...(watches.length ? { watches } : {}),
    };
  }

  /** `session.open` was sent: requests follow at once, commits after the first frame. */
  begin(connection: Connection, send: (text: string) => boolean): void {
    this.connection = connection;
    this.send = send;
    this.opened = this.id;
    this.isSending = this.isBlind = false;
    this.requests.open(connection, send);
    this.subscriptions.beginRest();
    this.outgoing.startOver([]); // nothing was sent on this one yet
    if (connection.mayCommit) this.sendAgain();
  }

  /** The connection is over, or could not be made; requests wait for the next one. */
  async lost(why: StemmaError): Promise<void> {
    this.whyOffline = this.requests.whySilent = why;
    this.isOpen = false;
    this.connection = undefined;
    for (const name of this.outgoing.sent.keys()) if (this.nursery.find(name) !== undefined) this.wasSent.add(name);
    this.requests.lose();
    if (why.code === "taken_over") await this.takeNewSession();
  }

  /** Sends every undecided journaled commit, the oldest first, once on each connection (RESUME-2). */
  private sendAgain(): void {
    this.isSending = true;
    this.outgoing.startOver(this.nursery.pending().filter((one) => this.journaled.has(one.key)));
    this.flush();
  }

  flush(): void {
    if (this.connection === undefined || !this.isSending) return;
    const hasRoom = this.outgoing.flush(this.connection, this.send, this.opened);
    if (!hasRoom) setTimeout(() => this.flush(), SOCKET_FULL_MS); // a WebSocket does not say when it has room again
  }

  /** What the server said. */
  handle(event: Event): void {
    if (this.isBlind) return;
    if (event.kind === "frame") this.integrate(event.frame);
    else if (event.kind === "answered") this.requests.answered(event.id, event.result, event.error);
    else if (event.kind === "deferred") this.defer(event.deferred);
    else if (event.kind === "unread" && event.local !== undefined) {
      const name = nameKey({ session: event.session ?? this.opened, local: event.local });
      this.settle({ ...NOTHING_DECIDED, refused: this.nursery.refuse(name, event.error) });
      this.flush();
    }
  }

  /** Not a verdict: it stays pending and is sent again, and so are the later ones (COMMIT-10). */
  private defer(event: Deferred): void {
    const wasPaused = this.outgoing.isPaused;
    const name = nameKey({ session: event.session ?? this.opened, local: event.local });
    if (!this.outgoing.defer(name) || wasPaused) return;
    const { connection } = this;
    setTimeout(() => {
      if (connection !== this.connection) return;
      this.outgoing.resume();
      this.flush();
    }, Math.max(bounded(event.retry_after_ms ?? 0), this.settings.firstPauseMs));
  }

  // ------------------------------------------------------------ frames

  private integrate(frame: Sync): void {
    if (this.nursery.isBlindTo(frame, this.opened)) {
      this.isBlind = true;
      void this.takeNewSession().then(() => this.reconnect());
      return;
    }
    let done = this.nursery.integrate(frame, this.opened, this.issued.get(this.opened) ?? 0);
    this.outgoing.settled((frame.verdicts ?? []).map((one) => nameKey({ session: one.session ?? this.opened, local: one.local })));
    let lost: ConfirmedCommit[] = [];
    if (frame.reset === "history") {
      lost = this.compare(frame.kept ?? []);
      const more = this.nursery.refuseAll(new Conflict({ count: 0 }, RESTORED, [], []));
      done = { ...done, refused: [...done.refused, ...more] };
    }
    const isFirst = !this.isOpen;
    if (isFirst) {
      this.requests.firstFrame(frame.reset === "history" ? new Conflict({ count: 0 }, GONE_BACK, [], []) : undefined);
      // The verdicts of other sessions come only once their commits are sent again.
      this.nursery.passOver([...this.wasSent].filter((name) => !name.startsWith(`${this.opened}:`)));
    }
    this.isOpen = true;
    this.lastFrameTime = Date.now();
    this.whyOffline = this.requests.whySilent = undefined;
    this.settle(done, lost, isFirst);
    for (const [number] of done.ended) this.subscriptions.ended(number);
    if (this.isSending) this.flush();
    else this.sendAgain();
    this.subscriptions.askFor(this.nursery.wanted());
  }

  private compare(kept: readonly Kept[]): ConfirmedCommit[] {
    return this.losses.compare(kept, this.opened, this.requests.limits.lost_keep_max);
  }

  /** Journals what became of commits, then notifies; takes a new session if another client uses this one. */
  private settle(done: Integrated, lost: readonly ConfirmedCommit[] = [], isFirst = false): void {
    const refused = done.refused.map((one) => new RejectedCommit(recordOf(one), this));
    const names = [...done.confirmed, ...done.refused].map((one) => one.pending.key);
    this.outgoing.settled(done.refused.filter((one) => one.because === undefined).map((one) => one.pending.key));
    for (const one of [...done.confirmed, ...done.refused]) {
      this.journaled.delete(one.pending.key);
      this.wasSent.delete(one.pending.key);
      this.pendingCharacters -= one.pending.text.length;
    }
    const confirm = done.confirmed.map(({ pending, version, hash }) => ({ name: pending.name, version, hash, content: pending.text }));
    const beyond = this.losses.add(confirm, this.requests.limits.lost_keep_max);
    this.subscriptions.wake();
    if (names.length || lost.length || isFirst) {
      const forget = [...beyond, ...lost.map((one) => one.name)];
      const step = { confirm, reject: refused.map((one) => one.record), forget, ...this.standingStep() };
      void this.notify(step, done, refused, lost);
    }
    const isTaken = done.refused.some((one) => NEW_SESSION_CODES.includes(one.code) && one.pending.name.session === this.id);
    if (done.strangers || isTaken) void this.takeNewSession().then(() => this.reconnect());
    this.onStatus();
  }

  /** Once it is on disk. If the disk refuses, a confirmation is still true; a refusal might be decided anew. */
  private async notify(step: JournalStep, done: Integrated, refused: RejectedCommit[], lost: readonly ConfirmedCommit[]): Promise<void> {
    try {
      if (this.journal.state !== "off") await this.journal.write(step);
    } catch (error) {
      this.fail(error);
    }
    for (const one of done.confirmed) this.notifier.confirmed(one.pending.key, one.version);
    for (const one of refused) this.notifier.refused(one);
    for (const one of lost) console.warn(`StemmaDB: the server was restored and lost the commit of version ${one.version}.`);
    this.notifier.lost.push(...lost);
    this.onStatus();
  }

  /** New commits are made in it; undecided ones are sent again under their old names (NURSERY-5). */
  private async takeNewSession(): Promise<void> {
    const id = await this.journal.newSession();
    this.issued.set(id, 0);
    this.id = id;
  }

  /** The page was frozen, and another tab has adopted the session: its commits are that tab's now (TS-8). */
  async wakeUp(): Promise<boolean> {
    if (await this.journal.stillOurs(this.id)) return true;
    const names = new Set(this.nursery.pending().map((one) => one.key));
    this.nursery.handOver(names);
    for (const name of names) this.journaled.delete(name);
    this.notifier.abandon(new StemmaError("taken_over", {}, "Another tab has taken over what was pending here."), names);
    await this.takeNewSession();
    this.subscriptions.wake();
    this.onStatus();
    return false;
  }

  // ------------------------------------------------------------ the journal

  private standingStep(): { standing?: Standing } {
    const { to, hash } = this.nursery;
    return hash === null ? {} : { standing: { to, hash } };
  }

  private write(step: JournalStep): void {
    this.journal.write(step).catch((error: unknown) => this.fail(error));
  }

  private fail(error: unknown): void {
    const why = error instanceof Error ? error.message : String(error);
    this.failure ??= error instanceof StemmaError ? error : new StemmaError("journal_failed", { path: "(IndexedDB)", why });
    this.onStatus();
  }

  /** Lets the journal go; gives how many commits were undecided and are kept nowhere. */
  async close(error: StemmaError): Promise<number> {
    if (this.ended !== undefined) return 0;
    this.ended = error;
    const undecided = this.notifier.undecided;
    const isKept = this.journal.state !== "off" && this.failure === undefined;
    this.subscriptions.endAll(error);
    this.requests.refuse(error);
    await this.journal.close();
    this.notifier.abandon(error);
    return isKept ? 0 : undecided;
  }
}

function journaledOf(pending: Pending, nursery: Nursery): JournaledCommit {
  const bases: CommitBase[] = [];
  for (const [id, indexes] of pending.byId) {
    const held = pending.writes[indexes[0]!]!.op === "patch" ? nursery.beneath(keyOf(pending.branch, id), pending) : undefined;
    if (held === undefined) continue;
    const value = held.value === ABSENT ? undefined : stringify(held.value);
    if (value !== undefined && value.length > BASE_CHARACTERS_MAX) continue;
    const { version, hash } = held;
    bases.push({ id, version, hash, asOf: held.asOf ?? nursery.to, ...(value === undefined ? {} : { value }) });
  }
  return { name: pending.name, nonce: pending.nonce, content: pending.text, bases };
}

function cachedOf(base: CommitBase): Cached {
  const value = base.value === undefined ? ABSENT : parse(base.value);
  return { value, version: base.version, hash: base.hash, asOf: base.asOf };
}

function recordOf(refusal: CommitRefusal): RejectedRecord {
  const { pending, code, message, stale, current, decided, because } = refusal;
  const { stale: _, ...details } = refusal.details;
  return {
    name: pending.name, content: pending.text, code, message, time: Date.now(), details: details as { [key: string]: Json },
    stale, current, decided, ...(because === undefined ? {} : { because }),
  };
}
