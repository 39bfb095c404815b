// Opening a database of this browser, so that a page that is left meanwhile never blocks the pages after it (TS-12).
//
// A page that is left may be kept frozen, to be shown again by "back". If it holds the upgrade of a database, or has asked
// for one, `indexedDB.open` answers no other page until the browser gives the frozen one up. So a page that is opening a
// database is not kept (that is what a listener for `unload` does), a page that was left opens none until it is shown
// again, and an opening gives its upgrade up when the page is left. Whoever waits all the same is told after OPEN_MS.
import { StemmaError } from "../errors.ts";

export const OPEN_MS = 10_000;

/** Resolves when the page is shown again; undefined while it is shown. */
let away: PromiseWithResolvers<void> | undefined;

export function onPage(name: "pagehide" | "pageshow" | "unload", listener: (event: Event) => void): () => void {
  globalThis.addEventListener?.(name, listener, { capture: true });
  return () => globalThis.removeEventListener?.(name, listener, { capture: true });
}

onPage("pagehide", () => (away ??= Promise.withResolvers()));
onPage("pageshow", () => {
  away?.resolve();
  away = undefined;
});

/** The database, made or upgraded by `upgrade`; what that throws refuses it. */
export async function opened(name: string, version: number, upgrade: (database: IDBDatabase) => void): Promise<IDBDatabase> {
  for (;;) {
    while (away !== undefined) await away.promise;
    const database = await attempted(name, version, upgrade);
    if (database !== undefined) return database;
  }
}

/** Undefined if the page was left meanwhile. */
function attempted(name: string, version: number, upgrade: (database: IDBDatabase) => void): Promise<IDBDatabase | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<IDBDatabase | undefined>();
  const request = indexedDB.open(name, version);
  let why = `it has not answered within ${OPEN_MS / 1_000} seconds`;
  let isOver = false;
  const end = (settle: () => void): void => {
    isOver = true;
    clearTimeout(timer);
    for (const stop of listening) stop();
    settle();
  };
  const giveUp = (settle: () => void): void => {
    try {
      request.transaction?.abort();
    } catch {
      // The upgrade is complete already: the database comes, and is closed.
    }
    end(settle);
  };
  const timer = setTimeout(() => giveUp(() => reject(unanswered(name, why))), OPEN_MS);
  const listening = [onPage("unload", () => {}), onPage("pagehide", () => giveUp(() => resolve(undefined)))];

  request.onblocked = () => (why = "another tab holds an older version of it");
  request.onupgradeneeded = () => {
    try {
      if (isOver) request.transaction!.abort();
      else upgrade(request.result);
    } catch (error) {
      giveUp(() => reject(error));
    }
  };
  request.onsuccess = () => (isOver ? request.result.close() : end(() => resolve(request.result)));
  request.onerror = (event) => {
    event.preventDefault(); // Firefox reports an aborted upgrade as an error of the page
    const why = request.error?.message ?? "the browser does not say why";
    if (!isOver) end(() => reject(new StemmaError("journal_failed", { path: name, why })));
  };
  return promise;
}

/** Closes it when another page upgrades or deletes it, and when this page is left and kept; then calls `closed` once.
 * Gives what closes it without the call. */
export function yielding(database: IDBDatabase, closed: (isAway: boolean) => void): () => void {
  const close = (): void => {
    stop();
    database.close();
  };
  const end = (isAway: boolean): void => {
    close();
    closed(isAway);
  };
  const stop = onPage("pagehide", (event) => (event as PageTransitionEvent).persisted && end(true));
  database.onversionchange = database.onclose = () => end(false);
  return close;
}

function unanswered(name: string, why: string): StemmaError {
  const message = `The browser does not open its database '${name}': ${why}. Close the other tabs of this site or restart the browser, then connect again.`;
  return new StemmaError("journal_failed", { path: name, why }, message);
}
