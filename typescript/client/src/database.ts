// The database: one server, one identity, and the spaces opened there.
import { SpaceCore } from "./core.ts";
import { StemmaError } from "./errors.ts";
import { IndexedDbJournal } from "./journal/indexeddb.ts";
import { MemoryJournal } from "./journal/memory.ts";
import type { Journal } from "./journal/port.ts";
import type { Identity } from "./keys/identity.ts";
import { KeyRing } from "./keys/keyring.ts";
import { DEFAULTS, type Settings } from "./session/settings.ts";
import { Space } from "./space.ts";

export interface ConnectOptions {
  /** Keeps undecided and refused commits over reloads: true for IndexedDB, or a journal of your own. */
  readonly journal?: boolean | ((principal: string, space: string) => Journal);
  /** Who you are; by default a key of this browser that is made on first use and cannot be read. */
  readonly signer?: Identity;
  /** Tokens that delegate rights to you, in the wire's base64. */
  readonly delegations?: readonly string[];
  readonly settings?: Partial<Settings>;
}

/** A client of the server at a `ws://` or `wss://` address. Nothing is connected before a space is opened. */
export async function connect(url: string, options: ConnectOptions = {}): Promise<Database> {
  const address = serverUrl(url);
  const ring = new KeyRing();
  return new Database(address, options.signer ?? (await ring.identity()), ring, options);
}

export class Database {
  readonly url: string;
  readonly identity: Identity;
  private readonly ring: KeyRing;
  private readonly options: ConnectOptions;
  private readonly settings: Settings;
  private readonly cores = new Map<string, Promise<SpaceCore>>();
  private isClosed = false;

  constructor(url: string, identity: Identity, ring: KeyRing, options: ConnectOptions) {
    this.url = url;
    this.identity = identity;
    this.ring = ring;
    this.options = options;
    this.settings = { ...DEFAULTS, ...options.settings };
  }

  /** The space of this local name, made on first use; or the one with this did:key. Without a server this works for a
   * space whose journal is here; else it throws `unreachable`. */
  async space(name: string): Promise<Space> {
    if (this.isClosed) throw new StemmaError("going_away", {}, "The database was closed. Connect again to go on.");
    const did = name.startsWith("did:key:z") ? name : await this.ring.named(this.url, name);
    let core = this.cores.get(did);
    if (core === undefined) {
      core = this.open(did);
      this.cores.set(did, core);
      core.catch(() => this.cores.delete(did));
    }
    return new Space(await core);
  }

  private async open(did: string): Promise<SpaceCore> {
    try {
      return await this.start(did);
    } catch (error) {
      const key = error instanceof StemmaError && error.code === "unknown_space" ? await this.ring.spaceKey(did) : undefined;
      if (key === undefined) throw error;
      await this.found(did, key);
      return this.start(did);
    }
  }

  private async start(did: string): Promise<SpaceCore> {
    const journal = this.journal(did);
    const core = await SpaceCore.open(did, this.url, this.identity, journal, this.settings, this.options.delegations ?? []);
    await core.link.settled();
    const isKnown = core.link.state === "offline" && core.session.nursery.hash !== null;
    if (core.link.state === "open" || isKnown) return core;
    const why = core.link.whyNotOpen();
    await core.close(0);
    throw why;
  }

  private journal(space: string): Journal {
    const { journal } = this.options;
    if (typeof journal === "function") return journal(this.identity.did, space);
    return journal ? new IndexedDbJournal(this.identity.did, space) : new MemoryJournal();
  }

  /** The first commit of a space is its access list, made by the space's own key. */
  private async found(did: string, key: Identity): Promise<void> {
    const core = await SpaceCore.open(did, this.url, key, new MemoryJournal(), this.settings, []);
    try {
      await core.link.settled();
      if (core.link.state !== "open") throw core.link.whyNotOpen();
      const write = { op: "set", id: did, value: { [this.identity.did]: "own" }, paths: null, blind: false } as const;
      await core.submit({ branch: "main", writes: [write], reads: [{ version: 0, id: did, through: [] }], bases: [] }).confirmed();
    } finally {
      await core.close(0);
    }
  }

  /** Waits for undecided commits, and lets everything go; `unconfirmed` if some are undecided and nothing keeps them. */
  async close(o: { waitMs?: number } = {}): Promise<void> {
    this.isClosed = true;
    const cores = await Promise.allSettled(this.cores.values());
    this.cores.clear();
    const closing = cores.map((one) => (one.status === "fulfilled" ? one.value.close(o.waitMs ?? this.settings.closeMs) : undefined));
    for (const error of await Promise.all(closing)) if (error !== undefined) throw error;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** The address in its one form; `malformed` says what to write instead. */
export function serverUrl(text: string): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw badUrl(text, "it cannot be read. Write it as 'ws://127.0.0.1:8420'");
  }
  if (url.protocol !== "ws:" && url.protocol !== "wss:") throw badUrl(text, "it does not begin with ws:// or wss://");
  if (url.username || url.password) throw badUrl(text, "a name and a password have no place in it: an identity signs");
  if (url.search || url.hash) throw badUrl(text, "nothing may follow its path");
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/+$/, "")}`;
}

function badUrl(text: string, why: string): StemmaError {
  return new StemmaError("malformed", { path: "(address)", why }, `'${text}' is not the address of a server: ${why}.`);
}
