// Keys and names of a page: its identity, the keys of spaces made here, and which space a name means.
import { opened, yielding } from "../journal/opening.ts";
import { got, transacted } from "../journal/requests.ts";
import { type Identity, identityOf, newKeys } from "./identity.ts";

const NAME = "stemmadb";

/** Keeps things by name; the first one that was given under a name wins. */
interface Store {
  find(name: string): Promise<unknown>;
  keep(name: string, value: unknown): Promise<unknown>;
}

class MemoryStore implements Store {
  private readonly kept = new Map<string, unknown>();

  async find(name: string): Promise<unknown> {
    return this.kept.get(name);
  }

  async keep(name: string, value: unknown): Promise<unknown> {
    if (!this.kept.has(name)) this.kept.set(name, value);
    return this.kept.get(name);
  }
}

class IndexedDbStore implements Store {
  private database: Promise<IDBDatabase> | undefined;

  private open(): Promise<IDBDatabase> {
    this.database ??= this.opened();
    return this.database;
  }

  /** What closes it, or fails, is forgotten: the next use opens it again. */
  private async opened(): Promise<IDBDatabase> {
    const forget = (): void => void (this.database = undefined);
    try {
      const database = await opened(NAME, 1, (made) => void made.createObjectStore("ring"));
      yielding(database, forget);
      return database;
    } catch (error) {
      forget();
      throw error;
    }
  }

  async find(name: string): Promise<unknown> {
    return got((await this.open()).transaction("ring").objectStore("ring").get(name));
  }

  async keep(name: string, value: unknown): Promise<unknown> {
    const transaction = (await this.open()).transaction("ring", "readwrite", { durability: "strict" });
    let kept: unknown = value;
    await transacted(transaction, () => {
      const ring = transaction.objectStore("ring");
      const known = ring.get(name);
      known.onsuccess = () => {
        kept = known.result ?? value;
        if (known.result === undefined) ring.put(value, name);
      };
    });
    return kept;
  }
}

/** The keys are CryptoKeys that cannot be read, in IndexedDB; in node they last as long as the process. */
export class KeyRing {
  private readonly store: Store = globalThis.indexedDB === undefined ? new MemoryStore() : new IndexedDbStore();

  /** The identity of this browser, made on first use. */
  async identity(): Promise<Identity> {
    const known = (await this.store.find("identity")) ?? (await this.store.keep("identity", await newKeys()));
    return identityOf(known as CryptoKeyPair);
  }

  async spaceKey(space: string): Promise<Identity | undefined> {
    const keys = await this.store.find(`space ${space}`);
    return keys === undefined ? undefined : identityOf(keys as CryptoKeyPair);
  }

  /** The space that a name means on a server, and whether it was made just now. */
  async named(url: string, name: string): Promise<string> {
    const known = await this.store.find(`name ${url} ${name}`);
    if (known !== undefined) return known as string;
    const keys = await newKeys();
    const { did } = await identityOf(keys);
    await this.store.keep(`space ${did}`, keys);
    return (await this.store.keep(`name ${url} ${name}`, did)) as string;
  }
}
