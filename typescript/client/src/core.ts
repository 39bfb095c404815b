// The core of a space: its session and link, and everything that all its branches share.
import { StemmaError } from "./errors.ts";
import type { Journal } from "./journal/port.ts";
import type { Identity } from "./keys/identity.ts";
import { ABSENT, type Cached } from "./nursery/entities.ts";
import type { NurseryView } from "./nursery/view.ts";
import type { CommitPlan } from "./nursery/plans.ts";
import { fetchIds, fetchQuery } from "./reading/fetch.ts";
import { type LinkState, ServerLink } from "./session/link.ts";
import type { Handle, RejectedCommit } from "./session/notifier.ts";
import { type Requests, within } from "./session/requests.ts";
import { ClientSession } from "./session/session.ts";
import type { Settings } from "./session/settings.ts";
import { Draft, type TransactionPort } from "./transactions.ts";
import type { Limits } from "./wire/connection.ts";

const CATCH_UP_MS = 5_000;

export interface Status {
  readonly link: LinkState;
  /** Up to which version everything watched is true, and when the last frame came. */
  readonly asOf?: { readonly version: number; readonly time: number };
  readonly journal: Journal["state"];
  /** Whether the pending work of tabs that are gone is taken over (TS-8). */
  readonly adoption: boolean;
  readonly cache: "off";
  readonly pending: number;
  readonly rejected: number;
  readonly error?: StemmaError;
}

export class SpaceCore implements TransactionPort {
  readonly session: ClientSession;
  readonly link: ServerLink;
  private readonly listeners = new Set<() => void>();
  private made: Status | undefined;
  private readonly stopListening: () => void;

  static async open(space: string, url: string, identity: Identity, journal: Journal, settings: Settings, delegations: readonly string[]): Promise<SpaceCore> {
    let session: ClientSession;
    try {
      session = new ClientSession(space, identity.did, journal, await journal.load(), settings);
    } catch (error) {
      await journal.close(); // or its locks would keep other tabs from what it holds
      throw error instanceof StemmaError ? error : new StemmaError("journal_failed", { path: space, why: `a record cannot be read (${String(error)})` });
    }
    return new SpaceCore(session, new ServerLink(session, url, identity, delegations));
  }

  private constructor(session: ClientSession, link: ServerLink) {
    this.session = session;
    this.link = link;
    session.onStatus = link.onChange = () => this.changed();
    session.resubmit = (rejected) => this.resubmit(rejected);
    this.stopListening = listenToPage(this);
  }

  get requests(): Requests {
    return this.session.requests;
  }

  get limits(): Limits {
    return this.session.requests.limits;
  }

  get history(): number {
    return this.session.nursery.history;
  }

  // ------------------------------------------------------------ for transactions

  view(branch: string): NurseryView {
    return this.session.nursery.view(branch);
  }

  release(view: NurseryView): void {
    this.session.nursery.release(view);
  }

  submit(plan: CommitPlan, history?: number): Handle {
    return this.session.submit(plan, history);
  }

  /** A question whose answer comes after a frame that reaches the head (SYNC-7); without a server nothing. */
  async catchUp(): Promise<void> {
    if (this.link.state !== "open") return;
    const query = { roots: [{ id: this.session.space }] };
    await this.requests.ask("query", { query }, CATCH_UP_MS).catch(ignoreStemma);
  }

  async fetch(branch: string, ids: readonly string[], version: number): Promise<Map<string, Cached>> {
    await this.reach(ids[0]!);
    return (await fetchIds(this.requests, branch, ids, version)).entities;
  }

  async fetchUnder(branch: string, prefix: string, version: number): Promise<Map<string, Cached>> {
    await this.reach(`${prefix}*`);
    return (await fetchQuery(this.requests, { roots: [{ id: `${prefix}*` }], branch, version })).entities;
  }

  /** What is not in view needs the server; without one it is refused at once (NURSERY-8). */
  private async reach(id: string): Promise<void> {
    await this.link.settled();
    if (this.link.state !== "open") throw new StemmaError("not_in_view", { id });
  }

  private resubmit(rejected: RejectedCommit): Promise<unknown> {
    const { current, decided } = rejected.record;
    return new Draft(this, rejected.branch, rejected.note).run((tx) => {
      if (this.link.state !== "open" || decided >= this.session.nursery.to) {
        const here = current.filter((one) => one.branch === rejected.branch); // nothing newer is here (SYNC-5)
        tx.tell(new Map(here.map(({ id, body, version, hash }) => [id, { value: body ?? ABSENT, version, hash, asOf: decided }])));
      }
      for (const operation of rejected.content.operations) tx.repeat(operation);
    });
  }

  // ------------------------------------------------------------ how it stands

  /** The same object until something changes. */
  status(): Status {
    if (this.made !== undefined) return this.made;
    const { session, link } = this;
    const { lastFrameTime: time, failure, whyOffline } = session;
    const error = failure ?? whyOffline;
    this.made = {
      link: link.state, journal: session.failure === undefined ? session.journal.state : "failed", adoption: session.journal.adoption,
      cache: "off", pending: session.nursery.size, rejected: session.notifier.rejected.size,
      ...(time === undefined ? {} : { asOf: { version: session.nursery.to, time } }),
      ...(error === undefined ? {} : { error }),
    };
    return this.made;
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  private changed(): void {
    this.made = undefined;
    for (const listener of [...this.listeners]) listener();
  }

  // ------------------------------------------------------------ the end

  /** Waits a while for undecided commits, then lets go; gives the error if work is left that nothing keeps. */
  async close(waitMs: number): Promise<StemmaError | undefined> {
    this.stopListening();
    const isKept = this.session.journal.state !== "off" && this.session.failure === undefined;
    const mayCome = ["connecting", "offline"].includes(this.link.state) && !isKept;
    if ((this.link.state === "open" || mayCome) && waitMs > 0) await within(this.session.notifier.idle(), waitMs);
    this.link.close();
    const left = await this.session.close(new StemmaError("going_away", {}, "The client was closed."));
    return left ? new StemmaError("unconfirmed", { count: left }) : undefined;
  }
}

function ignoreStemma(error: unknown): void {
  if (!(error instanceof StemmaError)) throw error;
}

/** A page that is hidden for good, frozen or woken: the socket goes, the lock stays (TS-8, TS-11). */
function listenToPage(core: SpaceCore): () => void {
  if (globalThis.document === undefined) return () => {};
  const { link, session } = core;
  const suspend = (): void => link.suspend();
  const resume = async (): Promise<void> => {
    await session.wakeUp();
    link.resume();
  };
  const nudge = (): void => void (document.visibilityState === "visible" && link.nudge());
  const shown = (event: Event): void => void ((event as PageTransitionEvent).persisted && resume());
  const all: [EventTarget, string, (event: Event) => void][] = [
    [window, "pagehide", suspend], [window, "pageshow", shown], [document, "freeze", suspend],
    [document, "resume", () => void resume()], [document, "visibilitychange", nudge], [window, "online", nudge],
  ];
  for (const [target, name, listener] of all) target.addEventListener(name, listener);
  return () => {
    for (const [target, name, listener] of all) target.removeEventListener(name, listener);
  };
}
