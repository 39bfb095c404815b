// Transactions: what an app reads and writes in one function becomes one commit (NURSERY-2, NURSERY-8).
import { MISSING, TransactionDraft } from "./drafting/draft.ts";
import { StemmaError } from "./errors.ts";
import { ABSENT, type Cached } from "./nursery/entities.ts";
import type { CommitPlan } from "./nursery/plans.ts";
import type { NurseryView } from "./nursery/view.ts";
import type { Handle, RejectedCommit } from "./session/notifier.ts";
import { emptyReference } from "./values/hashes.ts";
import type { Json } from "./values/json.ts";
import type { Limits } from "./wire/connection.ts";
import type { Operation } from "./wire/messages.ts";

/** What a transaction needs of its space. */
export interface TransactionPort {
  readonly limits: Limits;
  readonly history: number;
  view(branch: string): NurseryView;
  release(view: NurseryView): void;
  /** Brings the view to where the server is; resolves at once if there is no server. */
  catchUp(): Promise<void>;
  /** These entities as of a version; what is not there is left out. `not_in_view` if there is no server. */
  fetch(branch: string, ids: readonly string[], version: number): Promise<Map<string, Cached>>;
  fetchUnder(branch: string, prefix: string, version: number): Promise<Map<string, Cached>>;
  submit(plan: CommitPlan, history: number): Handle;
}

/** One commit in the making. Everything it reads is as of the moment it began. */
export class Draft {
  private readonly port: TransactionPort;
  private readonly branch: string;
  private readonly note: Json | undefined;
  private view: NurseryView;
  private draft: TransactionDraft | undefined;
  private history: number;

  constructor(port: TransactionPort, branch: string, note: Json | undefined) {
    this.port = port;
    this.branch = branch;
    this.note = typeof note === "string" ? { message: note } : note;
    this.view = port.view(branch);
    this.history = port.history;
    this.draft = new TransactionDraft(this.view, port.limits, this.note);
  }

  private get open(): TransactionDraft {
    if (this.draft === undefined) throw new StemmaError("malformed", { path: "transaction", why: "it is over" }, "The transaction is over; start another one.");
    return this.draft;
  }

  // ------------------------------------------------------------ reading

  /** The value, or the part of it at `path`; undefined if there is none. Name the path you use: others may change the rest. */
  async get<V extends Json = Json>(id: string, path = ""): Promise<V | undefined> {
    let value = this.open.get(id, path);
    if (value === MISSING) {
      await this.learn([id]);
      value = this.open.get(id, path);
    }
    return value as V | undefined;
  }

  /** Everything under a prefix such as `urn:todo:*`; nothing may be added there before the commit is decided. */
  async list(prefix: string): Promise<ReadonlyMap<string, Json>> {
    const bare = listedPrefix(prefix);
    let found = this.open.listing(bare);
    if (found === MISSING) {
      await this.moveOn();
      this.open.learnListing(bare, await this.port.fetchUnder(this.branch, bare, this.view.to));
      found = this.open.listing(bare);
    }
    return found as ReadonlyMap<string, Json>;
  }

  /** What is not in view is read as of the view; as long as the app was told nothing, the view is a new one. */
  private async learn(ids: readonly string[]): Promise<void> {
    await this.moveOn();
    const wanted = [...new Set([...ids, ...this.open.missing()])];
    const at = this.view.to;
    const found = await this.port.fetch(this.branch, wanted, at);
    for (const id of wanted) {
      this.open.learn(id, found.get(id) ?? { value: ABSENT, version: 0, hash: emptyReference(id), asOf: at });
    }
  }

  private async moveOn(): Promise<void> {
    if (this.open.isObserved) return;
    await this.port.catchUp();
    const view = this.port.view(this.branch);
    this.draft = this.open.movedTo(view);
    this.port.release(this.view);
    this.view = view;
    this.history = this.port.history;
  }

  // ------------------------------------------------------------ writing

  /** Gives it this value, whether it is there or not. `blind`: whatever others did meanwhile. */
  set(id: string, value: unknown, o: { blind?: boolean } = {}): void {
    this.open.set(id, value, o.blind);
  }

  /** The same for one that must not be there yet; `already_exists`, here or when the function ends. */
  create(id: string, value: unknown): void {
    this.open.create(id, value);
  }

  /** Changes parts of it: JSON Patch (RFC 6902), with `splice` and `increment`. */
  patch(id: string, operations: readonly unknown[], o: { blind?: boolean } = {}): void {
    this.open.patch(id, operations, o.blind);
  }

  /** Gives one that is there this value, and writes only what differs. */
  update(id: string, value: unknown): void {
    this.open.update(id, value);
  }

  /** Adds to a number; increments of others never conflict with it. */
  increment(id: string, path: string, by: number | bigint = 1, o: { blind?: boolean } = {}): void {
    this.open.increment(id, path, by, o.blind);
  }

  delete(id: string, o: { blind?: boolean } = {}): void {
    this.open.delete(id, o.blind);
  }

  /** An operation that was made before. */
  repeat(one: Operation): void {
    const o = { blind: one.blind ?? false };
    if (one.op === "set") this.set(one.id, one.body, o);
    else if (one.op === "delete") this.delete(one.id, o);
    else this.patch(one.id, one.body as readonly Json[], o);
  }

  /** What is known of entities that are not in view, so that they need not be asked for. */
  tell(known: ReadonlyMap<string, Cached>): void {
    for (const [id, held] of known) if (this.view.shown(id) === undefined) this.open.learn(id, held);
  }

  /** Runs the function, and submits what it came to; if it throws, nothing is written. */
  async run<T>(fn: (tx: Draft) => T | Promise<T>): Promise<Transaction<T>> {
    try {
      const value = await fn(this);
      const missing = this.open.missing();
      if (missing.length) await this.learn(missing);
      const plan = this.open.plan();
      const at = this.view.to;
      return new Transaction(value, plan.writes.length ? this.port.submit(plan, this.history) : undefined, at);
    } finally {
      this.port.release(this.view);
      this.draft = undefined;
    }
  }
}

/** What became of a transaction. It is in view when this is there. */
export class Transaction<T = unknown> {
  readonly value: T;
  private readonly handle: Handle | undefined;
  private readonly at: number;

  constructor(value: T, handle: Handle | undefined, at: number) {
    this.value = value;
    this.handle = handle;
    this.at = at;
  }

  get status(): "pending" | "confirmed" | "rejected" {
    return this.handle?.status ?? "confirmed";
  }

  /** The version it took, once it is confirmed; for one that wrote nothing the version it read. */
  get version(): number | undefined {
    return this.handle === undefined ? this.at : this.handle.version;
  }

  get rejection(): RejectedCommit | undefined {
    return this.handle?.rejection;
  }

  /** Resolves once the journal has it, so that it survives the page. */
  async journaled(): Promise<void> {
    await this.handle?.journaled();
  }

  /** Resolves once it is durable on the server; throws `Conflict`, or whatever it was refused with. */
  async confirmed(): Promise<void> {
    await this.handle?.confirmed();
  }
}

/** What the ids in a list begin with; `invalid_query` if it is not written like `urn:todo:*`. */
export function listedPrefix(prefix: string): string {
  if (typeof prefix === "string" && prefix.endsWith("*")) return prefix.slice(0, -1);
  throw new StemmaError("invalid_query", { why: "a list takes a prefix that ends with '*', as 'urn:todo:*'" });
}
