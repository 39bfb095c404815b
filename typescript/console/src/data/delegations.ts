// Where the delegations of this page are kept (CONSOLE-3). On plain loopback another program may have the port tomorrow,
// so there they go with the tab, unless the user wants to stay; a new tab asks the open ones. The key alone has no rights.
import { opened } from "../../../client/src/journal/opening.ts";
import { got, transacted } from "../../../client/src/journal/requests.ts";

export interface Delegation {
  readonly did: string;
  readonly name?: string;
  readonly role?: string;
  readonly expires?: number;
  /** The text form: base64url without padding, links of a chain joined by dots. */
  readonly text: string;
}

const KEY = "stemmadb.delegation ";
const DATABASE = "stemmadb-console";
const CHANNEL = "stemmadb-console";
const WAIT_MS = 60;
type Asked = { readonly ask: string } | { readonly answer: Delegation };

export function isSecure(): boolean {
  return location.protocol === "https:";
}

export async function keep(delegation: Delegation, stays: boolean): Promise<void> {
  if (stays || isSecure()) await put(delegation);
  else sessionStorage.setItem(KEY + delegation.did, JSON.stringify(delegation));
}

export async function forget(did: string): Promise<void> {
  sessionStorage.removeItem(KEY + did);
  await put(undefined, did);
}

/** What this tab, this browser or another open tab has for a space. */
export async function find(did: string): Promise<Delegation | undefined> {
  const here = sessionStorage.getItem(KEY + did);
  if (here !== null) return fresh(JSON.parse(here) as Delegation);
  const kept = await use((database) => got(database.transaction("delegations").objectStore("delegations").get(did)).catch(() => undefined));
  if (kept !== undefined && kept !== null) return fresh(kept as Delegation);
  const other = await askTabs(did);
  if (other !== undefined) sessionStorage.setItem(KEY + did, JSON.stringify(other));
  return other;
}

/** All spaces that this tab or browser has a delegation for. */
export async function known(): Promise<readonly Delegation[]> {
  const kept = (await use((database) => got(database.transaction("delegations").objectStore("delegations").getAll()).catch(() => []))) as Delegation[];
  const here = Object.keys(sessionStorage).filter((key) => key.startsWith(KEY)).map((key) => JSON.parse(sessionStorage.getItem(key)!) as Delegation);
  return [...new Map([...kept, ...here].filter((one) => fresh(one)).map((one) => [one.did, one])).values()];
}

/** The links of a delegation as the wire has them: padded base64. */
export function links(text: string): string[] {
  const parts = text.trim().split(".").map((part) => part.replaceAll("-", "+").replaceAll("_", "/").replace(/=+$/, ""));
  return parts.filter(Boolean).map((part) => part.padEnd(Math.ceil(part.length / 4) * 4, "="));
}

function fresh(one: Delegation): Delegation | undefined {
  return one.expires === undefined || one.expires > Date.now() ? one : undefined;
}

/** It is open for one use: a page lives for hours, and another may want to upgrade it. */
async function use<T>(act: (database: IDBDatabase) => Promise<T>): Promise<T> {
  const database = await opened(DATABASE, 1, (made) => void made.createObjectStore("delegations"));
  try {
    return await act(database);
  } finally {
    database.close();
  }
}

function put(delegation: Delegation | undefined, did = delegation!.did): Promise<void> {
  return use((database) => {
    const transaction = database.transaction("delegations", "readwrite");
    return transacted(transaction, () => {
      const store = transaction.objectStore("delegations");
      if (delegation === undefined) store.delete(did);
      else store.put(delegation, did);
    });
  });
}

/** Answers other tabs as long as this one lives. */
export function answerTabs(): void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = (event: MessageEvent<Asked>) => {
    if (!("ask" in event.data)) return;
    const here = sessionStorage.getItem(KEY + event.data.ask);
    if (here !== null) channel.postMessage({ answer: JSON.parse(here) as Delegation } satisfies Asked);
  };
}

function askTabs(did: string): Promise<Delegation | undefined> {
  const channel = new BroadcastChannel(CHANNEL);
  return new Promise((resolve) => {
    const finish = (found: Delegation | undefined): void => {
      channel.close();
      clearTimeout(timer);
      resolve(found);
    };
    const timer = setTimeout(() => finish(undefined), WAIT_MS);
    channel.onmessage = (event: MessageEvent<Asked>) => {
      if ("answer" in event.data && event.data.answer.did === did) finish(fresh(event.data.answer));
    };
    channel.postMessage({ ask: did } satisfies Asked);
  });
}
