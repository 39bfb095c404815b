// IndexedDB in promises: one transaction at a time.
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
