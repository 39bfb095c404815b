// A watch as the app sees it: a snapshot, a subscription, and an iterator of changes (NURSERY-4).
import type { StemmaError } from "../errors.ts";
import type { Subscription, Subscriptions } from "../session/subscriptions.ts";
import type { Json } from "../values/json.ts";
import type { Change } from "./watcher.ts";

export type WatchState = "loading" | "live" | "failed";

export class Watch<V extends Json = Json> implements AsyncIterable<Change<V>> {
  /** Resolves once the first answer is there; throws why there is none. */
  readonly ready: Promise<void>;
  private readonly subscription: Subscription;
  private readonly subscriptions: Subscriptions;
  private readonly listeners = new Set<() => void>();
  private readonly changes = new Set<(change: Change<V>) => void>();
  private readonly gate = Promise.withResolvers<void>();
  private isReady = false;
  private readonly stop: () => void;

  constructor(subscriptions: Subscriptions, subscription: Subscription) {
    this.subscriptions = subscriptions;
    this.subscription = subscription;
    this.ready = this.gate.promise;
    this.ready.catch(() => undefined); // whoever looks only at `state` needs no handler
    this.stop = subscription.listen(() => this.look());
    this.look();
  }

  /** Whether own pending writes move entities in and out at once; false for a watch with a schema (TS-9). */
  get localSchema(): boolean {
    return this.subscription.watcher.isPlain;
  }

  /** What is shown now, in the order of ids: the same object until something changes, and so is each value. */
  current(): ReadonlyMap<string, V> {
    return this.subscription.watcher.published as unknown as ReadonlyMap<string, V>;
  }

  get state(): WatchState {
    if (this.error !== undefined) return "failed";
    return this.isReady ? "live" : "loading";
  }

  get error(): StemmaError | undefined {
    return this.subscription.watcher.error;
  }

  /** Calls after each change of `current` or `state`; returns how to stop that. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  close(): void {
    this.stop();
    this.subscriptions.unwatch(this.subscription);
    for (const end of this.ends) end();
  }

  private readonly ends = new Set<() => void>();

  private look(): void {
    const change = this.subscription.take() as Change<V> | undefined;
    if (this.error !== undefined) this.gate.reject(this.error);
    else if (change === undefined) return;
    this.isReady = this.error === undefined;
    if (this.isReady) this.gate.resolve();
    if (change !== undefined) for (const tell of this.changes) tell(change);
    for (const listener of [...this.listeners]) listener();
    if (this.error !== undefined) for (const end of this.ends) end();
  }

  /** Each change once. However slow the loop is, one change takes it from what it saw last to the present. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Change<V>, void, undefined> {
    let waiting: Change<V> | undefined;
    let wake: (() => void) | undefined;
    let isOver = false;
    if (this.isReady) waiting = { version: 0, entered: this.current(), updated: new Map(), left: [] };
    const tell = (change: Change<V>): void => {
      waiting = waiting === undefined ? change : joined(waiting, change);
      wake?.();
    };
    const end = (): void => {
      isOver = true;
      wake?.();
    };
    this.changes.add(tell);
    this.ends.add(end);
    try {
      for (;;) {
        if (this.error !== undefined) throw this.error;
        if (waiting !== undefined) {
          const change: Change<V> = waiting;
          waiting = undefined;
          yield change;
        } else if (isOver) return;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      this.changes.delete(tell);
      this.ends.delete(end);
    }
  }
}

/** One change that does what the two do one after the other. */
export function joined<V>(one: Change<V>, other: Change<V>): Change<V> {
  const entered = new Map(one.entered);
  const updated = new Map(one.updated);
  const left = new Set(one.left);
  for (const id of other.left) {
    if (!entered.delete(id)) left.add(id);
    updated.delete(id);
  }
  for (const [id, value] of other.updated) (entered.has(id) ? entered : updated).set(id, value);
  for (const [id, value] of other.entered) (left.delete(id) ? updated : entered).set(id, value);
  return { version: other.version, entered, updated, left: [...left] };
}
