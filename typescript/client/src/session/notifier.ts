// Notifies the app of verdicts that the journal has: handles, rejected commits, callbacks (NURSERY-5, NURSERY-7).
import { Conflict, StemmaError } from "../errors.ts";
import type { ConfirmedCommit, RejectedRecord } from "../journal/port.ts";
import { type CommitName, nameKey } from "../nursery/entities.ts";
import { contentOf } from "../nursery/pending.ts";
import type { Json } from "../values/json.ts";
import type { Content, StaleRead } from "../wire/messages.ts";

/** One own commit: applied at once, `journaled` when the journal has it, `confirmed` when the server has. */
export class Handle {
  readonly name: CommitName;
  status: "pending" | "confirmed" | "rejected" = "pending";
  version: number | undefined;
  rejection: RejectedCommit | undefined;
  failure: StemmaError | undefined;
  isJournaled = false;
  /** Whether somebody waits for the verdict, and so will learn of it. */
  isAwaited = false;
  private readonly journaledGate = Promise.withResolvers<void>();
  private readonly decidedGate = Promise.withResolvers<void>();

  constructor(name: CommitName) {
    this.name = name;
  }

  async journaled(): Promise<void> {
    await this.journaledGate.promise;
    if (!this.isJournaled && this.failure !== undefined) throw this.failure;
  }

  async confirmed(): Promise<void> {
    this.isAwaited = true;
    await this.decidedGate.promise;
    if (this.failure !== undefined) throw this.failure;
  }

  markJournaled(): void {
    this.isJournaled = true;
    this.journaledGate.resolve();
  }

  confirm(version: number): void {
    this.status = "confirmed";
    this.version = version;
    this.markJournaled();
    this.decidedGate.resolve();
  }

  reject(rejection: RejectedCommit): void {
    this.status = "rejected";
    this.rejection = rejection;
    this.abandon(rejection.error);
  }

  /** Nobody here will learn more of it. */
  abandon(error: StemmaError): void {
    this.failure = error;
    this.journaledGate.resolve();
    this.decidedGate.resolve();
  }
}

/** Where a rejected commit can be submitted again, or dropped. */
export interface RetryPort {
  retry(rejected: RejectedCommit): Promise<unknown>;
  drop(names: readonly CommitName[]): void;
}

/** A commit that was not accepted. It keeps what it wanted to write, so that nothing is lost. */
export class RejectedCommit {
  readonly record: RejectedRecord;
  readonly content: Content;
  private readonly port: RetryPort;

  constructor(record: RejectedRecord, port: RetryPort) {
    this.record = record;
    this.content = contentOf(record.content);
    this.port = port;
  }

  get name(): CommitName {
    return this.record.name;
  }

  get code(): string {
    return this.record.code;
  }

  get message(): string {
    return this.record.message;
  }

  /** For a conflict: each read that no longer held, with the commit that won and its author. */
  get stale(): readonly StaleRead[] {
    return this.record.stale;
  }

  get branch(): string {
    return this.content.branch ?? "main";
  }

  get note(): Json | undefined {
    return this.content.note;
  }

  /** The same as the error that `confirmed` throws. */
  get error(): StemmaError {
    const { code, details, message, stale, current } = this.record;
    return code === "conflict" ? new Conflict(details, message, stale, current) : new StemmaError(code, details, message);
  }

  /** Submits it again on top of the current values, and drops this one. */
  retry(): Promise<unknown> {
    return this.port.retry(this);
  }

  /** Deletes it for good. */
  drop(): void {
    this.port.drop([this.name]);
  }
}

/** Holds the handles of undecided commits, the rejected commits, and the app's callbacks. */
export class Notifier {
  readonly rejected = new Map<string, RejectedCommit>();
  readonly lost: ConfirmedCommit[] = [];
  private readonly handles = new Map<string, Handle>();
  private readonly onRejected = new Set<(rejected: RejectedCommit) => void>();
  private idleGate: PromiseWithResolvers<void> | undefined;

  begin(name: CommitName): Handle {
    const handle = new Handle(name);
    this.handles.set(nameKey(name), handle);
    return handle;
  }

  get undecided(): number {
    return this.handles.size;
  }

  has(name: string): boolean {
    return this.handles.has(name);
  }

  /** Resolves once every commit has been decided. */
  async idle(): Promise<void> {
    while (this.handles.size) {
      this.idleGate ??= Promise.withResolvers();
      await this.idleGate.promise;
    }
  }

  journaled(name: string): void {
    this.handles.get(name)?.markJournaled();
  }

  confirmed(name: string, version: number): void {
    this.pop(name)?.confirm(version);
  }

  /** Adds it to the rejected commits and wakes its handle; if nobody awaits that, calls the callbacks. */
  refused(one: RejectedCommit): void {
    this.rejected.set(nameKey(one.name), one);
    const handle = this.pop(nameKey(one.name));
    handle?.reject(one);
    if (handle?.isAwaited) return;
    if (!this.onRejected.size) console.warn(`StemmaDB: a commit was refused and nobody waits for it: ${one.message}`);
    for (const callback of this.onRejected) callback(one);
  }

  abandon(error: StemmaError, names: Iterable<string> = [...this.handles.keys()]): void {
    for (const name of names) this.pop(name)?.abandon(error);
  }

  listen(callback: (rejected: RejectedCommit) => void): () => void {
    this.onRejected.add(callback);
    return () => void this.onRejected.delete(callback);
  }

  private pop(name: string): Handle | undefined {
    const handle = this.handles.get(name);
    this.handles.delete(name);
    if (!this.handles.size) {
      this.idleGate?.resolve();
      this.idleGate = undefined;
    }
    return handle;
  }
}
