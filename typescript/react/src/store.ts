// Watches that components share: equal ones are one watch, which lingers after its last component (TS-10).
import { type Json, type QueryOptions, type Selector, type Space, type StemmaError, type Watch, watchKey } from "@stemmadb/client";

export const LINGER_MS = 5_000;
export type QueryState = "loading" | "live" | "offline" | "failed";

/** One object that holds state and data, so that the two never tear. New only if something changed. */
export class Snapshot<V extends Json = Json> {
  readonly state: QueryState;
  readonly data: ReadonlyMap<string, V>;
  readonly error: StemmaError | undefined;
  private made: readonly V[] | undefined;

  constructor(state: QueryState, data: ReadonlyMap<string, V>, error?: StemmaError) {
    this.state = state;
    this.data = data;
    this.error = error;
  }

  /** The values in the order of ids. */
  get list(): readonly V[] {
    this.made ??= [...this.data.values()];
    return this.made;
  }
}

export const LOADING = new Snapshot("loading", new Map());

export class SharedWatch {
  private readonly begin: () => Watch;
  private readonly space: Space;
  private readonly forget: () => void;
  private readonly listeners = new Set<() => void>();
  private watch: Watch | undefined;
  private stops: (() => void)[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private snapshot: Snapshot = LOADING;

  constructor(space: Space, begin: () => Watch, forget: () => void) {
    this.space = space;
    this.begin = begin;
    this.forget = forget;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    clearTimeout(this.timer);
    this.listeners.add(listener);
    if (this.watch === undefined) this.start();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size) return;
      this.timer = setTimeout(() => this.stop(), LINGER_MS);
      (this.timer as { unref?: () => void }).unref?.(); // in node it must not keep the process alive
    };
  };

  readonly get = (): Snapshot => this.snapshot;

  private start(): void {
    this.watch = this.begin();
    this.stops = [this.watch.subscribe(() => this.look()), this.space.subscribeStatus(() => this.look())];
    this.look();
  }

  private stop(): void {
    for (const stop of this.stops) stop();
    this.watch?.close();
    this.watch = undefined;
    this.forget();
  }

  private look(): void {
    const watch = this.watch!;
    const isOpen = this.space.status().link === "open";
    const state = watch.state === "live" && !isOpen ? "offline" : watch.state;
    const { data, state: before } = this.snapshot;
    if (before === state && data === watch.current()) return;
    this.snapshot = new Snapshot(state, watch.current(), watch.error);
    for (const listener of [...this.listeners]) listener();
  }
}

const shared = new WeakMap<Space, Map<string, SharedWatch>>();
/** A render makes new objects, but often with the same schema inside: its text is remembered. */
const texts = new WeakMap<object, string>();

export function sharedWatch(space: Space, selector: Selector, o: QueryOptions): SharedWatch {
  let watches = shared.get(space);
  if (watches === undefined) shared.set(space, (watches = new Map()));
  const key = keyOf(space.branchName, selector, o);
  let one = watches.get(key);
  if (one === undefined) {
    one = new SharedWatch(space, () => space.watch(selector, o) as Watch, () => watches.delete(key));
    watches.set(key, one);
  }
  return one;
}

function keyOf(branch: string, selector: Selector, o: QueryOptions): string {
  const rest = `${o.path ?? ""} ${typeof selector === "string" ? selector : JSON.stringify(selector)} ${branch}`;
  if (typeof o.schema !== "object") return `${String(o.schema)} ${rest}`;
  let text = texts.get(o.schema);
  if (text === undefined) texts.set(o.schema, (text = watchKey("", "", { schema: o.schema })));
  return `${text} ${rest}`;
}
