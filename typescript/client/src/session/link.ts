// The link to the server: connects, moves messages, sends heartbeats, and reconnects with a backoff (RESUME-5).
import { StemmaError } from "../errors.ts";
import type { Identity } from "../keys/identity.ts";
import { fromBase64, toBase64 } from "../values/bytes.ts";
import { encode } from "../values/msgpack.ts";
import { Connection } from "../wire/connection.ts";
import type { Hello } from "../wire/messages.ts";
import { bounded } from "./requests.ts";
import type { ClientSession } from "./session.ts";

export type LinkState = "connecting" | "open" | "offline" | "refused" | "closed";
const SUBPROTOCOL = "stemma.v1.json";
const FLOOR_MS = 10;
/** Bytes handed to the socket and not sent yet; commits wait beyond it. */
const UNSENT_MAX = 1024 * 1024;

interface Ended {
  readonly why: StemmaError;
  readonly retryAfterMs?: number;
}

/** Keeps one session connected. */
export class ServerLink {
  state: LinkState = "connecting";
  onChange: () => void = () => {};
  private readonly session: ClientSession;
  private readonly url: string;
  private readonly identity: Identity;
  private readonly delegations: readonly string[];
  private ceiling: number;
  private wake: (() => void) | undefined;
  private end: ((ended: Ended) => void) | undefined;
  private checkLife: (() => void) | undefined;
  private isClosed = false;
  private isPaused = false;
  private isLate = false;

  constructor(session: ClientSession, url: string, identity: Identity, delegations: readonly string[]) {
    this.session = session;
    this.url = url;
    this.identity = identity;
    this.delegations = delegations;
    this.ceiling = session.settings.firstPauseMs;
    session.reconnect = session.subscriptions.giveUp = () => this.drop();
    void this.run();
  }

  // ------------------------------------------------------------ for the app

  /** Tries at once, say when the machine has woken up; a connection that is there must prove itself alive. */
  nudge(): void {
    this.ceiling = this.session.settings.firstPauseMs;
    this.wake?.();
    this.checkLife?.();
  }

  /** The page is frozen: the socket is closed, and nothing is tried until `resume` (TS-8). */
  suspend(): void {
    this.isPaused = true;
    this.drop();
  }

  resume(): void {
    this.isPaused = false;
    this.nudge();
  }

  /** Resolves once it is open, the first attempt has failed, or it is over. */
  async settled(): Promise<void> {
    while (this.state === "connecting") await this.changed();
  }

  close(): void {
    this.isClosed = true;
    this.enter("closed");
    this.drop();
    this.wake?.();
  }

  drop(): void {
    this.end?.({ why: new StemmaError("going_away", {}, "The client starts a new connection.") });
  }

  whyNotOpen(): StemmaError {
    if (this.state === "closed") return new StemmaError("going_away", {}, "The client was closed.");
    return this.session.whyOffline ?? new StemmaError("unreachable", { url: this.url, why: "there was no answer yet" });
  }

  // ------------------------------------------------------------ running

  private readonly waiters = new Set<() => void>();

  private changed(): Promise<void> {
    return new Promise((resolve) => this.waiters.add(resolve));
  }

  private enter(state: LinkState): void {
    if (this.isClosed) state = "closed";
    this.state = state;
    for (const waiter of this.waiters) waiter();
    this.waiters.clear();
    this.onChange();
  }

  private async run(): Promise<void> {
    while (!this.isClosed) {
      const { why, retryAfterMs } = await this.connect();
      if (this.isClosed) return;
      await this.session.lost(why);
      const isWelcome = this.mayBeLate(why) || why.retriable || why.code === "taken_over" || why.code === "going_away";
      if (!isWelcome) this.session.requests.refuse(why);
      this.enter(isWelcome ? "offline" : "refused");
      do await this.pause(retryAfterMs ?? 0);
      while (this.isPaused && !this.isClosed);
    }
  }

  /** A challenge expires on a slow line, or when a clock is set: only one after the other is a refusal. */
  private mayBeLate(why: StemmaError): boolean {
    const wasLate = this.isLate;
    this.isLate = why.code === "unauthenticated";
    return this.isLate && !wasLate;
  }

  /** The pauses grow, and are drawn evenly from nothing to the ceiling, so that clients do not come back together. */
  private pause(retryAfterMs: number): Promise<void> {
    const ms = Math.max(FLOOR_MS, Math.random() * this.ceiling) + bounded(retryAfterMs);
    this.ceiling = Math.min(this.session.settings.mostPauseMs, this.ceiling * 2);
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.wake?.(), ms);
      this.wake = () => {
        clearTimeout(timer);
        this.wake = undefined;
        resolve();
      };
    });
  }

  /** One connection, from the attempt to its end. */
  private connect(): Promise<Ended> {
    const address = `${this.url}/v1/spaces/${this.session.space}`;
    return new Promise((resolve) => {
      let socket: WebSocket;
      try {
        socket = new WebSocket(address, SUBPROTOCOL);
      } catch (error) {
        return resolve({ why: this.unreachable(String(error)) });
      }
      const finish = (ended: Ended): void => {
        if (this.end !== finish) return;
        this.end = this.checkLife = undefined;
        clearTimeout(timer);
        socket.onmessage = socket.onclose = socket.onerror = null;
        socket.close();
        resolve(ended);
      };
      this.end = finish;
      let timer = setTimeout(() => finish({ why: this.unreachable("no answer") }), this.session.settings.openMs);
      const connection = new Connection();
      const send = (text: string): boolean => {
        if (socket.readyState === WebSocket.OPEN) socket.send(text);
        return socket.bufferedAmount < UNSENT_MAX;
      };
      const later = (ms: number, act: () => void): void => {
        clearTimeout(timer);
        timer = setTimeout(act, ms);
      };
      const askForLife = (): void => {
        this.session.requests.begin({ type: "ping" }, () => {}, false);
        later(this.session.settings.deadMs, () => finish({ why: new StemmaError("timed_out", { timeout_ms: this.session.settings.deadMs }) }));
      };
      socket.onmessage = (message) => {
        if (connection.state === "open") later(this.session.settings.heartbeatMs, askForLife);
        this.take(connection, message.data, send, finish);
        if (this.session.isOpen) this.checkLife = askForLife;
      };
      socket.onclose = (event) => {
        const why = event.code === 1006 ? "the connection was lost, or nothing listens there" : `closed (${event.code} ${event.reason})`;
        finish({ why: this.unreachable(why) });
      };
    });
  }

  private take(connection: Connection, data: unknown, send: (text: string) => boolean, finish: (ended: Ended) => void): void {
    const event = connection.receive(data);
    if (event === undefined) return;
    if (event.kind === "closed") {
      const { error: why, retryAfterMs } = event;
      return finish({ why, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
    }
    if (event.kind === "hello") return void this.greet(connection, event.hello, send, finish);
    try {
      this.session.handle(event);
    } catch (error) {
      console.error("StemmaDB: internal error of the client", error);
      return finish({ why: new StemmaError("internal", { reference: "" }, `Internal error of the client (${String(error)}). Please report it.`) });
    }
    if (this.session.isOpen && this.state !== "open" && this.end === finish) {
      this.ceiling = this.session.settings.firstPauseMs;
      this.isLate = false;
      this.enter("open");
    }
  }

  /** Signs the challenge, and says where this side stands. */
  private async greet(connection: Connection, hello: Hello, send: (text: string) => boolean, finish: (ended: Ended) => void): Promise<void> {
    const { session } = this.session.position(connection.limits);
    const signed = encode([
      "stemma.v1 session.open", hello.server, fromBase64(hello.challenge), this.session.space, this.identity.did, fromBase64(session),
    ]);
    let signature: Uint8Array;
    try {
      signature = await this.identity.sign(signed);
    } catch (error) {
      return finish({ why: new StemmaError("unauthenticated", { why: String(error) }) });
    }
    if (this.end !== finish) return;
    // Asked again: a commit may have been made while the key signed. The session is the same.
    const position = this.session.position(connection.limits);
    if (position.session !== session) return finish({ why: new StemmaError("going_away") });
    const delegations = this.delegations.length ? { delegations: this.delegations } : {};
    send(connection.open({ type: "session.open", principal: this.identity.did, ...position, ...delegations, signature: toBase64(signature) }));
    this.session.begin(connection, send);
  }

  private unreachable(why: string): StemmaError {
    return new StemmaError("unreachable", { url: this.url, why });
  }
}
