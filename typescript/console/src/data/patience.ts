// What looks at much and brings little (counts, prefixes, bars) waits for what brings rows: they share the threads of one server.
const SETTLE_MS = 20;
/** In a stream of other questions it waits no longer. */
const WAIT_MS = 1_000;

export class Patience {
  private open = 0;
  private last: Promise<unknown> = Promise.resolve();
  private readonly waiting = new Set<() => void>();

  /** Asks at once. */
  async now<T>(ask: () => Promise<T>): Promise<T> {
    this.open += 1;
    try {
      return await ask();
    } finally {
      this.open -= 1;
      if (this.open === 0) for (const wake of this.waiting) wake();
    }
  }

  /** Asks when nothing else is open, one after the other. */
  later<T>(ask: () => Promise<T>): Promise<T> {
    const asked = this.last.then(() => this.calm()).then(ask);
    this.last = asked.catch(() => undefined);
    return asked;
  }

  private async calm(): Promise<void> {
    const end = Date.now() + WAIT_MS;
    do {
      await new Promise((resolve) => setTimeout(resolve, SETTLE_MS)); // what is asked in the same turn goes first
      if (this.open > 0) await new Promise<void>((resolve) => this.wokenAt(end, resolve));
    } while (this.open > 0 && Date.now() < end);
  }

  private wokenAt(end: number, resolve: () => void): void {
    const wake = (): void => {
      clearTimeout(timer);
      this.waiting.delete(wake);
      resolve();
    };
    const timer = setTimeout(wake, Math.max(0, end - Date.now()));
    this.waiting.add(wake);
  }
}
