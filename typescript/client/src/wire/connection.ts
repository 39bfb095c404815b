// One connection as the client sees it: hello, session.open, frames put together, answers matched (WIRE-2, WIRE-4).
//
//     new --hello--> greeted --open()--> open --goodbye, or what cannot be read--> closed
import { LIMITS } from "../constants.ts";
import { restored, StemmaError } from "../errors.ts";
import { parse, stringify } from "../values/json.ts";
import type { CommitItem, Deferred, ErrorMessage, Goodbye, Hello, Ok, ServerMessage, SessionOpen, Sync } from "./messages.ts";

export type Limits = typeof LIMITS;
export type Event =
  | { readonly kind: "hello"; readonly hello: Hello }
  | { readonly kind: "frame"; readonly frame: Sync }
  | { readonly kind: "deferred"; readonly deferred: Deferred }
  | { readonly kind: "answered"; readonly id: number; readonly result: unknown; readonly error?: StemmaError }
  | { readonly kind: "unread"; readonly error: StemmaError; readonly local?: number; readonly session?: string }
  | { readonly kind: "closed"; readonly error: StemmaError; readonly retryAfterMs?: number };

const PROTOCOL = 1;
/** What the parts of one frame may add up to in memory. */
const FRAME_CHARACTERS_MAX = 512 * 1024 * 1024;

export class Connection {
  state: "new" | "greeted" | "open" | "closed" = "new";
  limits: Limits = LIMITS;
  features: ReadonlySet<string> = new Set();
  to = 0;
  private hash: string | undefined;
  /** Whether commits can be sent: at once if nothing is held, else after the first frame (WIRE-2). */
  mayCommit = false;
  private lastId = 0;
  private readonly waiting = new Set<number>();
  private parts: Sync[] = [];
  private characters = 0;

  open(message: SessionOpen): string {
    this.state = "open";
    this.to = message.to ?? 0;
    this.hash = this.to ? message.hash : undefined;
    this.mayCommit = this.to === 0;
    return stringify(message);
  }

  /** A request with a number of its own; its answer will be an `answered` event, once. */
  request(fields: { readonly type: string }): { id: number; text: string } {
    this.lastId += 1;
    const { type, ...rest } = fields;
    const text = stringify({ type, id: this.lastId, ...rest });
    const bound = ["blob.chunk", "merge", "erase"].includes(type) ? "message_bytes_max" : "schema_bytes_max";
    const maximum = this.limits[bound];
    if (text.length > maximum) throw new StemmaError("limit_exceeded", { bound, maximum, actual: text.length });
    this.waiting.add(this.lastId);
    return { id: this.lastId, text };
  }

  /** What one message of the server means. A message that cannot be read ends the connection. */
  receive(text: unknown): Event | undefined {
    if (this.state === "closed") return undefined;
    try {
      if (typeof text !== "string") throw malformed("(message)", "messages of stemma.v1.json are text");
      return this.take(read(text), text.length);
    } catch (error) {
      const why = error instanceof StemmaError ? error : malformed("(message)", String(error));
      return this.close(why);
    }
  }

  private take(message: ServerMessage, size: number): Event | undefined {
    if (message.type === "goodbye") return this.close(restored(message as Goodbye), (message as Goodbye).retry_after_ms);
    if ((message.type === "hello") !== (this.state === "new")) {
      throw outOfOrder(message.type, "the server says hello once, first");
    }
    if (message.type === "hello") return this.greet(message as Hello);
    if (this.state !== "open") throw outOfOrder(message.type, "the session is not open");
    if (message.type === "sync") return this.frame(message as Sync, size);
    if (message.type === "deferred") return { kind: "deferred", deferred: message as Deferred };
    return this.answered(message as Ok | ErrorMessage);
  }

  private greet(hello: Hello): Event {
    if (hello.protocol !== PROTOCOL) {
      throw new StemmaError("unsupported_protocol", { wanted: hello.protocol, spoken: PROTOCOL });
    }
    const known = Object.entries(hello.limits ?? {}).filter(([name, value]) => Object.hasOwn(LIMITS, name) && Number.isSafeInteger(value));
    this.limits = { ...LIMITS, ...Object.fromEntries(known) };
    this.features = new Set(hello.features ?? []);
    this.state = "greeted";
    return { kind: "hello", hello };
  }

  private answered(message: Ok | ErrorMessage): Event {
    if (message.type === "error" && message.id === undefined) {
      const { local, session } = message;
      const error = restored(message);
      return { kind: "unread", error, ...(local === undefined ? {} : { local }), ...(session === undefined ? {} : { session }) };
    }
    const id = message.id!;
    if (!this.waiting.delete(id)) throw outOfOrder(message.type, `no request ${id} waits for an answer`);
    if (message.type === "error") return { kind: "answered", id, result: undefined, error: restored(message) };
    return { kind: "answered", id, result: message.result };
  }

  // ------------------------------------------------------------ frames (SYNC-1)

  private frame(part: Sync, size: number): Event | undefined {
    const path = misshapen(part);
    if (path !== undefined) throw malformed(path, "it is not what the message schema says");
    this.characters += size;
    if (this.characters > FRAME_CHARACTERS_MAX) throw outOfOrder("sync", "its parts are too large together");
    const why = this.parts.length ? stranger(part, this.parts[0]!) : this.offence(part);
    if (why !== undefined) throw outOfOrder("sync", why);
    this.parts.push(part);
    if (part.more) return undefined;
    const frame = joined(this.parts);
    this.parts = [];
    this.characters = 0;
    this.mayCommit = true;
    this.to = part.to;
    this.hash = part.hash;
    return { kind: "frame", frame };
  }

  private offence(part: Sync): string | undefined {
    if (!Number.isSafeInteger(part.from) || !Number.isSafeInteger(part.to)) return "it names no versions";
    if (part.to < part.from) return `it goes back from ${part.from} to ${part.to}`;
    if (part.reset !== undefined) return part.from === 0 ? undefined : "a frame that starts over begins at 0";
    if (part.from !== this.to) return `it begins at ${part.from}, and the one before ended at ${this.to}`;
    const isOther = part.to === part.from && this.hash !== undefined && this.hash !== part.hash;
    return isOther ? `it gives version ${part.to} another hash` : undefined;
  }

  private close(error: StemmaError, retryAfterMs?: number): Event {
    this.state = "closed";
    return { kind: "closed", error, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  }
}

/** What the parts of a frame are made of, as far as applying it relies on that: a frame is taken whole or not at all. */
const SHAPES: { readonly [list: string]: Shape } = {
  commits: { version: "integer", facts: "list" },
  verdicts: { verdict: "string", local: "integer" },
  entered: { watch: "integer", branch: "string", id: "string", version: "integer", hash: "string" },
  left: { watch: "integer", branch: "string", id: "string" },
  ended: { watch: "integer", code: "string" },
  kept: { local: "integer", version: "integer", hash: "string" },
};
const FACT = { id: "string", kind: "string" };
const ACCEPTED = { version: "integer", hash: "string", request: "string", hashes: "list", salts: "list" };
type Shape = { readonly [field: string]: string };

/** The path of the first thing that is not as it must be. */
function misshapen(part: Sync): string | undefined {
  const lists = part as unknown as { readonly [name: string]: unknown };
  for (const name in SHAPES) {
    const path = unlike(lists[name], SHAPES[name]!, `/${name}`);
    if (path !== undefined) return path;
  }
  for (const commit of part.commits ?? []) {
    const path = unlike(commit.facts, FACT, "/commits/facts");
    if (path !== undefined) return path;
  }
  const accepted = part.verdicts?.filter((one) => one.verdict === "accepted");
  return unlike(accepted, ACCEPTED, "/verdicts") ?? (isList(part.filled, Number.isSafeInteger) ? undefined : "/filled");
}

function unlike(list: unknown, shape: Shape, path: string): string | undefined {
  let found: string | undefined;
  const fits = (one: { readonly [field: string]: unknown } | null): boolean => {
    for (const field in shape) if (!isLike(one?.[field], shape[field]!)) found ??= `${path}/${field}`;
    return found === undefined;
  };
  return isList(list, fits) ? undefined : (found ?? path);
}

function isList(list: unknown, fits: (one: never) => boolean): boolean {
  return list === undefined || (Array.isArray(list) && (list as never[]).every(fits));
}

function isLike(value: unknown, kind: string): boolean {
  if (kind === "integer") return Number.isSafeInteger(value);
  return kind === "list" ? Array.isArray(value) : typeof value === kind;
}

const TYPES = new Set(["hello", "sync", "deferred", "ok", "error", "goodbye"]);

function read(text: string): ServerMessage {
  const message = parse(text) as unknown as ServerMessage;
  if (typeof message !== "object" || message === null || !TYPES.has(message.type)) {
    throw new StemmaError("unknown_message", { type: String((message as { type?: unknown } | null)?.type) });
  }
  return message;
}

function stranger(part: Sync, first: Sync): string | undefined {
  const isSame = part.from === first.from && part.to === first.to && part.hash === first.hash && part.reset === first.reset;
  return isSame ? undefined : "it is not a part of the frame that was begun";
}

/** The whole frame from its parts, each commit in one item. */
function joined(parts: readonly Sync[]): Sync {
  const last = parts.at(-1)!;
  const list = <T>(pick: (part: Sync) => readonly T[] | undefined): T[] => parts.flatMap((part) => pick(part) ?? []);
  const commits = joinedCommits(list((part) => part.commits));
  if (parts.length === 1) return { ...last, commits };
  return {
    ...last, commits, verdicts: list((part) => part.verdicts), entered: list((part) => part.entered), left: list((part) => part.left),
    filled: list((part) => part.filled), ended: list((part) => part.ended), kept: list((part) => part.kept),
  };
}

/** The commits with the items of one version put together. */
function joinedCommits(items: readonly CommitItem[]): CommitItem[] {
  const commits: CommitItem[] = [];
  for (const item of items) {
    const before = commits.at(-1);
    if (before?.version !== item.version) {
      commits.push(item);
      continue;
    }
    const isNext = before.author === item.author && (before.facts.at(-1)?.index ?? -1) < (item.facts[0]?.index ?? 0);
    if (!isNext) throw malformed("commits", `two items of version ${item.version} are not of one commit`);
    commits[commits.length - 1] = { ...before, facts: [...before.facts, ...item.facts] };
  }
  return commits;
}

function malformed(path: string, why: string): StemmaError {
  return new StemmaError("malformed", { path, why });
}

function outOfOrder(type: string, why: string): StemmaError {
  return new StemmaError("out_of_order", { type, why });
}
