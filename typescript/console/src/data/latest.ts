// Asks one question at a time (CONSOLE-7): while one is open, only the last that was wanted meanwhile waits.
export class Latest<T> {
  private readonly show: (answer: { data?: T; error?: unknown; key: string }) => void;
  private running: string | undefined;
  private next: { key: string; ask: () => Promise<T> } | undefined;
  private isOver = false;

  constructor(show: (answer: { data?: T; error?: unknown; key: string }) => void) {
    this.show = show;
  }

  want(key: string, ask: () => Promise<T>): void {
    this.next = { key, ask };
    if (this.running === undefined) void this.run();
  }

  close(): void {
    this.isOver = true;
    this.next = undefined;
  }

  private async run(): Promise<void> {
    while (this.next !== undefined) {
      const { key, ask } = this.next;
      this.next = undefined;
      this.running = key;
      const answer = await ask().then((data) => ({ data, key }), (error: unknown) => ({ error, key }));
      if (!this.isOver) this.show(answer);
    }
    this.running = undefined;
  }
}
