// IndexedDB in promises: opening a database, and one transaction at a time.
export function opened(name: string, version: number, upgrade: (database: IDBDatabase) => void): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, version);
    request.onupgradeneeded = () => upgrade(request.result);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the database cannot be opened"));
    request.onblocked = () => reject(new Error("another tab holds an older version open; close it"));
  });
}

/** Resolves when the transaction is complete; what `act` throws aborts it. */
export function transacted(transaction: IDBTransaction, act: (transaction: IDBTransaction) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = transaction.onerror = () => reject(transaction.error ?? new Error("the transaction was aborted"));
    act(transaction);
  });
}

export function got<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("it cannot be read"));
  });
}
