// The journal in IndexedDB, shared by all tabs of a principal on a space (TS-7), and its sessions (TS-8).
//
// Each page load makes its commits in a session of its own, and holds the Web Lock of that session for as long as the
// page lives, frozen or not. A session with rows whose lock is free belongs to a page that is gone: whoever finds it
// takes the lock and sends its commits again. No leader and no heartbeats: the browser frees the locks.
import { StemmaError } from "../errors.ts";
import { type CommitName, nameKey } from "../nursery/entities.ts";
import { newSessionId } from "./memory.ts";
import { opened, yielding } from "./opening.ts";
import type { ConfirmedCommit, Journal, JournaledCommit, JournalState, JournalStep, RejectedRecord, Standing } from "./port.ts";
import { got, transacted } from "./requests.ts";
import { within } from "../session/requests.ts";

const VERSION = 1;
/** How long opening waits for the answer whether the browser may evict the journal. */
const PERSIST_MS = 200;
const STORES = ["pending", "confirmed", "rejected", "heads"] as const;

interface Row<T> {
  readonly session: string;
  readonly local: number;
  readonly record: T;
}

interface Waiting {
  readonly step: JournalStep;
  readonly done: PromiseWithResolvers<void>;
}

export class IndexedDbJournal implements Journal {
  state: Journal["state"] = "evictable";
  readonly adoption = globalThis.navigator?.locks !== undefined;
  private readonly name: string;
  private database: IDBDatabase | undefined;
  private opening: Promise<IDBDatabase> | undefined;
  private release: (() => void) | undefined;
  private isClosed = false;
  private failure: StemmaError | undefined;
  private session = "";
  /** How to let the lock of each session go. */
  private readonly locks = new Map<string, () => void>();
  private clientId: string | undefined;
  private waiting: Waiting[] = [];
  private writing: Promise<void> | undefined;
  private readonly channel: BroadcastChannel | undefined;

  constructor(principal: string, space: string) {
    this.name = `stemmadb:${principal}:${space}`;
    this.channel = globalThis.BroadcastChannel === undefined ? undefined : new BroadcastChannel(this.name);
  }

  async load(): Promise<JournalState> {
    await this.open(upgrade);
    await this.askToPersist();
    await this.newSession();
    const pending = await this.adopted();
    const [confirmed, rejected, heads] = await Promise.all([
      this.all<ConfirmedCommit>("confirmed"), this.all<RejectedRecord>("rejected"), this.heads(),
    ]);
    const sessions = new Set(pending.map((one) => one.name.session));
    // Only a standing that is no older than what a commit read can tell whether a server still has that (RESUME-4).
    const wanted = sessions.size ? heads.filter((one) => sessions.has(one.session)) : heads.slice(-1);
    const standing = wanted.map((one) => one.standing).sort((one, other) => other.to - one.to)[0];
    confirmed.sort((one, other) => one.version - other.version);
    return { session: this.session, pending, confirmed, rejected, ...(standing === undefined ? {} : { standing }) };
  }

  private async open(upgrade: (database: IDBDatabase) => void): Promise<IDBDatabase> {
    try {
      const database = await opened(this.name, VERSION, upgrade);
      if (this.isClosed) {
        database.close();
        throw new Error("it is closed");
      }
      this.database = database;
      this.release = yielding(database, (isAway) => {
        this.database = undefined;
        if (!isAway) this.fail(new Error("another tab deletes or upgrades it, or the browser has closed it"));
      });
      return database;
    } catch (error) {
      throw this.fail(error);
    }
  }

  /** The database; opened again after the page was away, and lost if it was deleted meanwhile. */
  private async opened(): Promise<IDBDatabase> {
    if (this.failure !== undefined) throw this.failure;
    if (this.isClosed) throw new Error("it is closed");
    return this.database ?? (await (this.opening ??= this.open(missing).finally(() => (this.opening = undefined))));
  }

  /** Firefox asks the person, and answers when they have: nobody waits for that. The state follows the answer. */
  private async askToPersist(): Promise<void> {
    this.state = "evictable";
    const asked = globalThis.navigator?.storage?.persist?.().catch(() => false) ?? Promise.resolve(false);
    const told = asked.then((isPersistent) => {
      if (isPersistent && this.state === "evictable") this.state = "persistent";
    });
    await within(told, PERSIST_MS);
  }

  /** The lock is taken before the session's first row is written. */
  async newSession(): Promise<string> {
    const session = newSessionId();
    await this.lock(session);
    this.session = session;
    return session;
  }

  /** The undecided commits of sessions whose page is gone. Their sessions are ours from now on. */
  private async adopted(): Promise<JournaledCommit[]> {
    const rows = await this.all<JournaledCommit>("pending");
    const ours = new Set<string>();
    for (const session of this.adoption ? new Set(rows.map((one) => one.name.session)) : []) {
      if (await this.lock(session)) ours.add(session);
    }
    if (!ours.size) return [];
    // Read again under the locks: another tab may have adopted and settled some of them meanwhile.
    const now = await this.all<JournaledCommit>("pending");
    return now.filter((one) => ours.has(one.name.session));
  }

  /** Takes the lock of a session, if nobody has it; it is held until the page goes. */
  private lock(session: string): Promise<boolean> {
    if (!this.adoption) return Promise.resolve(false);
    return new Promise((resolve, reject) => {
      const held = (lock: Lock | null): Promise<void> | undefined => {
        resolve(lock !== null);
        return lock === null ? undefined : new Promise((release) => this.locks.set(session, release));
      };
      navigator.locks.request(`${this.name}:${session}`, { ifAvailable: true }, held).catch(reject);
    }).then(async (isOurs) => {
      if (isOurs && this.clientId === undefined) this.clientId = await this.holder(session);
      return isOurs as boolean;
    });
  }

  private async holder(session: string): Promise<string | undefined> {
    const { held } = await navigator.locks.query();
    return held?.find((one) => one.name === `${this.name}:${session}`)?.clientId;
  }

  async stillOurs(session: string): Promise<boolean> {
    if (!this.adoption) return true;
    const holder = await this.holder(session);
    return holder === this.clientId || (holder === undefined && (await this.lock(session)));
  }

  // ------------------------------------------------------------ reading

  private async rows<T>(store: (typeof STORES)[number]): Promise<Row<T>[]> {
    const database = await this.opened();
    return (await got(database.transaction(store).objectStore(store).getAll())) as Row<T>[];
  }

  private async all<T extends { name: CommitName }>(store: (typeof STORES)[number]): Promise<T[]> {
    const rows = await this.rows<T>(store);
    for (const { session, local, record } of rows) {
      if (record?.name === undefined || nameKey(record.name) !== nameKey({ session, local })) {
        throw this.fail(new Error(`a record of '${store}' is not what was written`));
      }
    }
    return rows.map((row) => row.record);
  }

  private async heads(): Promise<{ session: string; standing: Standing; at: number }[]> {
    const heads = (await this.rows("heads")) as unknown as { session: string; standing: Standing; at: number }[];
    return heads.sort((one, other) => one.at - other.at);
  }

  async rejected(): Promise<readonly RejectedRecord[]> {
    return this.failure === undefined && !this.isClosed ? this.all<RejectedRecord>("rejected") : [];
  }

  onElsewhere(callback: () => void): void {
    if (this.channel !== undefined) this.channel.onmessage = () => callback();
  }

  // ------------------------------------------------------------ writing

  write(step: JournalStep): Promise<void> {
    const waiting = { step, done: Promise.withResolvers<void>() };
    this.waiting.push(waiting);
    this.writing ??= this.flush();
    return waiting.done.promise;
  }

  /** One transaction for everything that came meanwhile. */
  private async flush(): Promise<void> {
    await undefined;
    while (this.waiting.length) {
      const taken = this.waiting;
      this.waiting = [];
      try {
        await this.commit(taken.map((one) => one.step));
        for (const one of taken) one.done.resolve();
        if (taken.some(({ step }) => step.reject?.length || step.drop?.length)) this.channel?.postMessage("look again");
      } catch (error) {
        const failure = this.fail(error);
        for (const one of taken) one.done.reject(failure);
      }
    }
    this.writing = undefined;
  }

  private async commit(steps: readonly JournalStep[]): Promise<void> {
    const database = await this.opened();
    const transaction = database.transaction(STORES, "readwrite", { durability: "strict" });
    return transacted(transaction, () => {
      for (const step of steps) this.take(step, (store) => transaction.objectStore(store));
    });
  }

  private take(step: JournalStep, store: (name: (typeof STORES)[number]) => IDBObjectStore): void {
    const put = (name: (typeof STORES)[number], record: { name: CommitName }): void => void store(name).put({ ...record.name, record });
    const remove = (name: (typeof STORES)[number], { session, local }: CommitName): void => void store(name).delete([session, local]);
    for (const one of step.add ?? []) put("pending", one);
    for (const one of step.confirm ?? []) {
      remove("pending", one.name);
      put("confirmed", one);
    }
    for (const one of step.reject ?? []) {
      remove("pending", one.name);
      put("rejected", one);
    }
    for (const one of step.drop ?? []) remove("rejected", one);
    for (const one of step.forget ?? []) remove("confirmed", one);
    if (step.standing !== undefined) {
      for (const session of [this.session, ...(step.add ?? []).map((one) => one.name.session)]) {
        store("heads").put({ session, standing: step.standing, at: Date.now() });
      }
      this.forgetOldHeads(store("heads"));
    }
  }

  /** Sessions come with every page load: of those that nobody holds, the newest few are enough. */
  private forgetOldHeads(heads: IDBObjectStore): void {
    const request = heads.index("at").getAllKeys();
    request.onsuccess = () => {
      for (const key of request.result.slice(0, -HEADS_MAX)) heads.delete(key);
    };
  }

  // ------------------------------------------------------------ the end

  private fail(error: unknown): StemmaError {
    const why = error instanceof Error ? error.message : String(error);
    this.failure ??= error instanceof StemmaError ? error : new StemmaError("journal_failed", { path: this.name, why });
    this.state = "failed";
    return this.failure;
  }

  async close(): Promise<void> {
    await this.writing?.catch(() => undefined);
    this.isClosed = true;
    this.release?.();
    this.database = undefined;
    this.channel?.close();
    for (const release of this.locks.values()) release();
    this.locks.clear();
  }
}

const HEADS_MAX = 64;

function missing(): void {
  throw new Error("it was deleted while this page was away");
}

function upgrade(database: IDBDatabase): void {
  for (const name of ["pending", "confirmed", "rejected"]) database.createObjectStore(name, { keyPath: ["session", "local"] });
  database.createObjectStore("heads", { keyPath: "session" }).createIndex("at", "at");
}
