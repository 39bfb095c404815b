// The watches of a session: requested, resumed on new connections, published to the app (SYNC-4).
import { limitExceeded, StemmaError } from "../errors.ts";
import { Membership } from "../nursery/confirmed.ts";
import { branchOf, idOf, type Key } from "../nursery/entities.ts";
import type { Nursery } from "../nursery/nursery.ts";
import { type Change, Watcher } from "../watching/watcher.ts";
import { stringify } from "../values/json.ts";
import { wholeBody } from "../wire/entities.ts";
import type { HeldWatch, Query, QueryAnswer } from "../wire/messages.ts";
import { bounded, pause, type Requests } from "./requests.ts";

/** How often an entity that does not fit is asked for, before the connection is given up. */
const ASKED_AGAIN_MAX = 3;
const RETRY_AFTER_MS = 200;

/** One watch; `onChange` is called with each visible change, `onEnd` once. */
export class Subscription {
  readonly watcher: Watcher;
  private readonly listeners = new Set<() => void>();
  /** Changes that an iterator has not taken yet become one: there is no queue (NURSERY-4). */
  private readonly overlay: Nursery;

  constructor(watcher: Watcher, overlay: Nursery) {
    this.watcher = watcher;
    this.overlay = overlay;
  }

  wake(): void {
    if (this.watcher.error !== undefined || this.watcher.hasNews()) for (const listener of [...this.listeners]) listener();
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  take(): Change | undefined {
    return this.watcher.take(this.overlay);
  }
}

/** All watches of one session, by number; a number is never used twice. */
export class Subscriptions {
  /** Gives the connection up, so that everything comes again. */
  giveUp: () => void = () => {};
  private readonly nursery: Nursery;
  private readonly requests: Requests;
  private last = 0;
  private readonly live = new Map<number, Subscription>();
  private rest: Subscription[] = [];
  private readonly asking = new Set<Key>();

  constructor(nursery: Nursery, requests: Requests) {
    this.nursery = nursery;
    this.requests = requests;
  }

  /** Begins to watch; the answer of the server says only whether it may. */
  watch(query: Query): Subscription {
    const watcher = new Watcher(this.last + 1, query);
    this.last += 1;
    const subscription = new Subscription(watcher, this.nursery);
    const maximum = this.requests.limits.watches_max;
    if (this.live.size >= maximum) {
      watcher.end(limitExceeded("watches_max", maximum, this.live.size + 1));
      return subscription;
    }
    this.nursery.watch(watcher.number, new Membership(watcher.branch, watcher.names, watcher.prefixes), watcher);
    this.live.set(watcher.number, subscription);
    this.begin(subscription, this.requests.opened);
    return subscription;
  }

  /** Asks for it on this connection; the next one is opened with it. */
  private begin(subscription: Subscription, opened: number): void {
    const { number, query } = subscription.watcher;
    if (!this.requests.isOpen || this.requests.opened !== opened || !this.live.has(number)) return;
    const answered = (_: unknown, error?: StemmaError): void => {
      if (error === undefined || !this.live.has(number)) return;
      if (error.retriable) setTimeout(() => this.begin(subscription, this.requests.opened), waitOf(error));
      else this.end(number, subscription, error);
    };
    this.requests.begin({ type: "watch", watch: number, query } as { type: string }, answered, false);
  }

  /** Nobody looks any more. What it held is let go once the server has stopped sending it. */
  unwatch(subscription: Subscription): void {
    const { number } = subscription.watcher;
    if (!this.live.delete(number)) return;
    if (!this.requests.isOpen) return this.nursery.unwatch(number);
    this.requests.begin({ type: "unwatch", watch: number } as { type: string }, () => this.nursery.unwatch(number), false);
  }

  private end(number: number, subscription: Subscription, error: StemmaError): void {
    this.live.delete(number);
    this.nursery.unwatch(number);
    subscription.watcher.end(error);
    subscription.wake();
  }

  /** The watches to continue on a new connection; what is not filled comes whole (RESUME-1). Those that do not fit
   * into the message that opens it are asked for after it. */
  held(): HeldWatch[] {
    const { watches_max, schema_bytes_max } = this.requests.limits;
    for (const [number, one] of [...this.live].slice(watches_max)) {
      this.end(number, one, limitExceeded("watches_max", watches_max, this.live.size));
    }
    this.nursery.keepWatches(new Set(this.live.keys()));
    this.rest = [];
    const found: HeldWatch[] = [];
    let room = schema_bytes_max / 2;
    for (const [number, one] of this.live) {
      room -= stringify(one.watcher.query).length * 3;
      const filled = room >= 0 && this.nursery.isFilled(number);
      if (!filled) this.nursery.unfill(number);
      if (room >= 0) found.push({ watch: number, query: one.watcher.query, ...(filled ? { filled } : {}) });
      else this.rest.push(one);
    }
    return found;
  }

  beginRest(): void {
    for (const one of this.rest) this.begin(one, this.requests.opened);
    this.rest = [];
  }

  /** The server has ended it; its watcher knows why. */
  ended(number: number): void {
    const subscription = this.live.get(number);
    this.live.delete(number);
    subscription?.wake();
  }

  /** After each change: whoever has news looks. */
  wake(): void {
    for (const one of this.live.values()) one.wake();
  }

  endAll(error: StemmaError): void {
    for (const [number, one] of [...this.live]) this.end(number, one, error);
  }

  // ------------------------------------------------------------ what is asked again

  /** Each once, however many frames want it. */
  askFor(wanted: Iterable<Key>): void {
    for (const key of wanted) if (!this.asking.has(key)) void this.askAgain(key);
  }

  private async askAgain(key: Key): Promise<void> {
    this.asking.add(key);
    try {
      for (let tries = 0; tries < ASKED_AGAIN_MAX; tries += 1) {
        const answer = await this.answer(key);
        if (answer === undefined) return;
        const one = answer.entities?.[0];
        const cached = one && { value: wholeBody(one), version: one.version, hash: one.hash, asOf: null };
        if (this.nursery.answered(key, cached, answer.version)) return this.wake();
      }
      this.giveUp();
    } catch (error) {
      if (!(error instanceof StemmaError)) throw error; // the next frame that wants it asks again
    } finally {
      this.asking.delete(key);
    }
  }

  /** What the server says, once it can; undefined if nobody wants it any more. */
  private async answer(key: Key): Promise<QueryAnswer | undefined> {
    while (this.nursery.isWanted(key)) {
      try {
        return await this.requests.ask("query", { query: { roots: [{ id: idOf(key) }], branch: branchOf(key) } });
      } catch (error) {
        if (!(error instanceof StemmaError) || !error.retriable) throw error;
        await pause(waitOf(error));
      }
    }
    return undefined;
  }
}

function waitOf(error: StemmaError): number {
  return bounded(Number(error.details["retry_after_ms"] ?? RETRY_AFTER_MS));
}
