// A journal that keeps nothing: what is undecided is lost with the page, and `close` says so (NURSERY-7).
import { toBase64 } from "../values/bytes.ts";
import type { Journal, JournalState } from "./port.ts";

export function newSessionId(): string {
  return toBase64(crypto.getRandomValues(new Uint8Array(16)));
}

export class MemoryJournal implements Journal {
  readonly state = "off";
  readonly adoption = false;

  async load(): Promise<JournalState> {
    return { session: newSessionId(), pending: [], confirmed: [], rejected: [] };
  }

  async newSession(): Promise<string> {
    return newSessionId();
  }

  async write(): Promise<void> {}

  async stillOurs(): Promise<boolean> {
    return true;
  }

  async rejected(): Promise<[]> {
    return [];
  }

  onElsewhere(): void {}

  async close(): Promise<void> {}
}
