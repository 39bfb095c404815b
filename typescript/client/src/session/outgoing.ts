// Commits on their way to the server: sent in order, each once on a connection, again where they were deferred.
import type { Pending } from "../nursery/pending.ts";
import type { Connection } from "../wire/connection.ts";

/** The queue of one session. It holds only what the journal has, and sends while there is room (NURSERY-5). */
export class Outgoing {
  /** Sent on this connection and not decided by the server, even if it was rejected here meanwhile. */
  readonly sent = new Map<string, Pending>();
  /** While the server asked to wait, nothing is sent: later ones would only be deferred as well (COMMIT-10). */
  isPaused = false;
  private ready: Pending[] = [];
  private readonly deferred = new Set<string>();
  private readonly isPending: (name: string) => boolean;

  constructor(isPending: (name: string) => boolean) {
    this.isPending = isPending;
  }

  add(pending: Pending): void {
    this.ready.push(pending);
  }

  /** A connection has opened: all of these are sent again, in order (RESUME-2). */
  startOver(every: readonly Pending[]): void {
    this.ready = [...every];
    this.sent.clear();
    this.deferred.clear();
    this.isPaused = false;
  }

  /** Sends what is ready while `send` says that there is room; false if that ran out. */
  flush(connection: Connection, send: (text: string) => boolean, session: string): boolean {
    let done = 0;
    let hasRoom = true;
    while (hasRoom && done < this.ready.length && !this.isPaused && connection.mayCommit && connection.state === "open") {
      const pending = this.ready[done]!;
      if (pending.dependsElsewhere.some(this.isPending)) break; // a server keeps the order only within a session
      done += 1;
      if (!this.sent.has(pending.key) && !this.isPending(pending.key)) continue; // rejected because of one before it
      this.sent.set(pending.key, pending);
      hasRoom = send(messageOf(pending, session));
    }
    this.ready.splice(0, done);
    return hasRoom;
  }

  /** It was not decided now; whether it was sent on this connection and is to be sent again. */
  defer(name: string): boolean {
    if (!this.sent.has(name)) return false;
    this.deferred.add(name);
    this.isPaused = true;
    return true;
  }

  /** The wait is over: what was deferred is sent again, in the order in which it was sent, before the rest. */
  resume(): void {
    const again = [...this.sent].filter(([name]) => this.deferred.has(name)).map(([, pending]) => pending);
    this.ready.unshift(...again);
    this.deferred.clear();
    this.isPaused = false;
  }

  /** They are decided, or were never sent. */
  settled(names: Iterable<string>): void {
    for (const name of names) {
      this.sent.delete(name);
      this.deferred.delete(name);
    }
  }
}

/** The message of a commit: the content is the text that the journal has, so a retry sends the same (TS-4). */
export function messageOf({ name, nonce, text }: Pending, session: string): string {
  const older = name.session === session ? "" : `,"session":${JSON.stringify(name.session)}`;
  return `{"type":"commit","local":${name.local},"nonce":${JSON.stringify(nonce)},"content":${text}${older}}`;
}
