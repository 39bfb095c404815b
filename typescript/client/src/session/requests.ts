// Requests that wait for their answers, across lost connections too (WIRE-4).
import { FEATURES, LIMITS } from "../constants.ts";
import { StemmaError } from "../errors.ts";
import { toBase64 } from "../values/bytes.ts";
import type { Connection, Limits } from "../wire/connection.ts";
import type { Answers, ClientMessages } from "../wire/messages.ts";

const UNANSWERED_MAX = 1_000;
const WAIT_MAX_MS = 3_600_000;
/** The fields of a write that name commits of the history that the app knows. */
const NAMING_VERSIONS = ["versions", "version", "since", "fork", "floor", "source_version"];

export type RequestType = keyof Answers;
export type Fields<T extends RequestType> = Omit<ClientMessages[T], "type" | "id" | "operation" | "nonce">;
type OnAnswer = (result: unknown, error?: StemmaError) => void;

interface Queued {
  readonly message: { readonly type: string };
  readonly isLasting: boolean;
  /** Whether it writes what it would not mean on a server that has another history (RESUME-4). */
  readonly namesVersions: boolean;
  onAnswer: OnAnswer;
}

/** All unanswered requests; a new connection sends them again, in order. A write that names versions waits for the
 * first frame, which shows whether they are still the same commits. */
export class Requests {
  limits: Limits = LIMITS;
  features: ReadonlySet<string> = new Set();
  /** Why there is no connection, if there is none. */
  whySilent: StemmaError | undefined;
  /** How many connections there have been. */
  opened = 0;
  private readonly askMs: number;
  private waiting = new Set<Queued>();
  private readonly sent = new Map<number, Queued>();
  private connection: Connection | undefined;
  private send: (text: string) => boolean = () => true;
  private refusal: StemmaError | undefined;
  private isHistoryKnown = false;

  constructor(askMs: number) {
    this.askMs = askMs;
  }

  get isOpen(): boolean {
    return this.connection !== undefined;
  }

  /** The answer; throws the error that was answered, why there is no connection, or `timed_out`. */
  async ask<T extends RequestType>(type: T, fields: Fields<T>, timeoutMs = this.askMs): Promise<Answers[T]> {
    const until = Date.now() + timeoutMs;
    for (;;) {
      try {
        return (await this.once({ type, ...fields }, until - Date.now())) as Answers[T];
      } catch (error) {
        const wait = error instanceof StemmaError && error.code === "rate_limited" ? error.details["retry_after_ms"] : undefined;
        if (wait === undefined || Date.now() + Number(wait) > until) throw error;
        await pause(Number(wait));
      }
    }
  }

  /** The same for a write: its operation id and nonce are made once, so that it is done once (COMMIT-11). */
  write<T extends RequestType>(type: T, fields: Fields<T>): Promise<Answers[T]> {
    const [operation, nonce] = [randomId(), randomId()];
    return this.ask(type, { operation, nonce, ...fields } as unknown as Fields<T>);
  }

  private once(message: { type: string }, timeoutMs: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.giveUp(queued);
        reject(this.whySilent ?? new StemmaError("timed_out", { timeout_ms: timeoutMs }));
      }, timeoutMs);
      const queued = this.begin(message, (result, error) => { // at once, if it cannot be sent
        clearTimeout(timer);
        if (error === undefined) resolve(result);
        else reject(error);
      });
    });
  }

  /** Asks now, or as soon as there is a connection. One that is not lasting ends with its connection without a call:
   * opening the next one says the same. While the server refuses the session, the caller gets the refusal at once. */
  begin(message: { readonly type: string }, onAnswer: OnAnswer, isLasting = true): Queued {
    const fields = message as Record<string, unknown>;
    const namesVersions = "operation" in fields && NAMING_VERSIONS.some((name) => fields[name] !== undefined);
    const queued: Queued = { message, isLasting, namesVersions, onAnswer };
    if (this.refusal !== undefined) {
      const refusal = this.refusal;
      queueMicrotask(() => onAnswer(undefined, refusal));
    } else {
      this.waiting.add(queued);
      this.flush();
    }
    return queued;
  }

  private giveUp(queued: Queued): void {
    this.waiting.delete(queued);
    queued.onAnswer = ignore;
  }

  open(connection: Connection, send: (text: string) => boolean): void {
    this.connection = connection;
    this.send = send;
    this.refusal = undefined;
    this.isHistoryKnown = false;
    this.limits = connection.limits;
    this.features = connection.features;
    this.opened += 1;
    this.flush();
  }

  /** The first frame has come. With `restored` the server has another history: what names versions fails. */
  firstFrame(restored?: StemmaError): void {
    const strange = restored === undefined ? [] : [...this.waiting].filter((one) => one.namesVersions);
    for (const queued of strange) this.waiting.delete(queued);
    this.isHistoryKnown = true;
    this.flush();
    for (const queued of strange) queued.onAnswer(undefined, restored);
  }

  /** The connection is gone; what was asked on it is asked again on the next. */
  lose(): void {
    const again = [...this.sent.values()].filter((one) => one.onAnswer !== ignore);
    this.waiting = new Set([...again, ...this.waiting].filter((one) => one.isLasting));
    this.sent.clear();
    this.connection = undefined;
  }

  answered(id: number, result: unknown, error?: StemmaError): void {
    const queued = this.sent.get(id);
    this.sent.delete(id);
    this.flush();
    queued?.onAnswer(result, error);
  }

  /** The server will not have us: none is answered, and none that is asked before the next connection. */
  refuse(error: StemmaError): void {
    this.refusal = error;
    const waiting = [...this.sent.values(), ...this.waiting];
    this.sent.clear();
    this.waiting.clear();
    for (const queued of waiting) queued.onAnswer(undefined, error);
  }

  /** An older server would refuse a message or a field that it does not know (WIRE-5). */
  private checkFeatures(message: { readonly type: string }): void {
    const { type, ...fields } = message;
    const named = Object.entries(fields).filter(([, value]) => value !== undefined).map(([name]) => `${type}.${name}`);
    const wanted = [type, ...named].find((name) => FEATURES.has(name) && !this.features.has(name));
    if (wanted === undefined) return;
    throw new StemmaError("unsupported_protocol", { wanted, spoken: [...this.features].join(", ") || "no features" });
  }

  private flush(): void {
    for (const queued of [...this.waiting]) {
      if (this.connection?.state !== "open" || this.sent.size >= UNANSWERED_MAX) return;
      if (queued.namesVersions && !this.isHistoryKnown) continue;
      this.waiting.delete(queued);
      this.sendOne(queued, this.connection);
    }
  }

  private sendOne(queued: Queued, connection: Connection): void {
    try {
      this.checkFeatures(queued.message);
      const { id, text } = connection.request(queued.message);
      this.sent.set(id, queued);
      this.send(text);
    } catch (error) {
      if (!(error instanceof StemmaError)) throw error;
      queued.onAnswer(undefined, error); // it is larger than the server takes
    }
  }
}

function ignore(): void {}

/** How long to wait where a server says so: a larger number would be taken for none by a timer. */
export function bounded(ms: number): number {
  return ms >= 0 ? Math.min(ms, WAIT_MAX_MS) : 0;
}

export function randomId(): string {
  return toBase64(crypto.getRandomValues(new Uint8Array(16)));
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits for a promise, and no longer than this. */
export async function within(promise: Promise<void>, ms: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  await Promise.race([promise, new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}
