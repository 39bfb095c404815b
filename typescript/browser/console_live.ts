// Looks at the screen Live while a space changes so many times a second: the heap, the rate that is shown, how far behind it is.
import type { Space } from "@stemmadb/client";
import type { Page } from "puppeteer-core";
import type { ConsoleWorld } from "./console_support.ts";

export interface Looked {
  /** MiB after a collection, at equal distances in time; the first is that of the filled list. */
  readonly heaps: readonly number[];
  /** How many changes were written in a second, and how many the page says there were. */
  readonly written: number;
  readonly shown: number;
  /** ms from a change until the page has drawn it, sampled. */
  readonly behind: readonly number[];
  /** ms from a click on Pause until the button has changed, sampled. */
  readonly answers: readonly number[];
  readonly rows: number;
}

const IDS = 100;
const TURN_MS = 100;
/** Live has its 1,000 rows and its code is warm. */
const FILLED_AFTER = 1_200;

/** `samples` looks at the page, at equal distances, while `rate` changes a second are written for `minutes`. */
export async function watched(world: ConsoleWorld, space: Space, given: { minutes: number; rate: number; samples?: number; say?: (line: string) => void }): Promise<Looked> {
  const { minutes, rate, samples = 10, say = () => undefined } = given;
  const writer = new Writer(space, rate);
  const page = await world.tab(`/console/${space.did}/live`);
  await page.waitForFunction(() => document.querySelector(".live") !== null);
  const running = writer.run();
  try {
    await writer.reached(FILLED_AFTER);
    const [began, writtenBefore] = [Date.now(), writer.written];
    const [heaps, behind, answers, shown]: [number[], number[], number[], number[]] = [[], [], [], []];
    for (let sample = 0; sample <= samples; sample += 1) {
      await until(began + (minutes * 60_000 * sample) / samples);
      heaps.push(await heapOf(page));
      behind.push(await drawnAfter(page, writer));
      answers.push(await pauseAnswers(page));
      if (sample > 0) shown.push(await page.$eval("[data-testid=rate]", (one) => Number.parseFloat(one.textContent!)));
      say(`${((Date.now() - began) / 60_000).toFixed(1)} min: heap ${heaps.at(-1)!.toFixed(1)} MiB, behind ${behind.at(-1)!.toFixed(0)} ms, a click answered in ${answers.at(-1)!.toFixed(0)} ms`);
    }
    const written = ((writer.written - writtenBefore) * 1_000) / (Date.now() - began);
    const rows = Number(await page.$eval(".rows-body", (one) => one.getBoundingClientRect().height / 34));
    return { heaps, written, shown: median(shown), behind, answers, rows };
  } finally {
    writer.stop();
    await running;
    await page.close();
  }
}

export function median(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)]!;
}

/** Increments entities in turn, at a rate, without waiting for each verdict. */
class Writer {
  written = 0;
  private readonly space: Space;
  private readonly rate: number;
  private isOver = false;

  constructor(space: Space, rate: number) {
    this.space = space;
    this.rate = rate;
  }

  async run(): Promise<void> {
    await this.space.transact((tx) => {
      for (let n = 0; n < IDS; n += 1) tx.set(`urn:live:${n}`, { votes: 0, text: "as it flows" });
    });
    const began = Date.now();
    while (!this.isOver) {
      const due = Math.floor(((Date.now() - began) * this.rate) / 1_000);
      while (this.written < due && !this.isOver) {
        await this.space.transaction((tx) => tx.patch(`urn:live:${this.written % IDS}`, [{ op: "replace", path: "/votes", value: this.written }], { blind: true } as never));
        this.written += 1;
      }
      await this.space.settled();
      await until(Date.now() + TURN_MS);
    }
  }

  async reached(count: number): Promise<void> {
    while (this.written < count) await until(Date.now() + TURN_MS);
  }

  stop(): void {
    this.isOver = true;
  }
}

async function heapOf(page: Page): Promise<number> {
  const client = await page.createCDPSession();
  await client.send("HeapProfiler.collectGarbage");
  const { JSHeapUsedSize } = await page.metrics();
  await client.detach();
  return JSHeapUsedSize! / 1024 / 1024;
}

/** How long it takes until the first row is one of what is written now. */
async function drawnAfter(page: Page, writer: Writer): Promise<number> {
  const [began, value] = [performance.now(), writer.written];
  await page.waitForFunction((value) => Number(/→ (\d+)/.exec(document.querySelector(".flow-text")?.textContent ?? "")?.[1] ?? -1) >= value, { polling: "raf", timeout: 60_000 }, value);
  return performance.now() - began;
}

/** Pauses, sees it said, and goes on. */
function pauseAnswers(page: Page): Promise<number> {
  return page.evaluate(async () => {
    const button = (): HTMLButtonElement => document.querySelector<HTMLButtonElement>(".live button[aria-pressed]")!;
    const began = performance.now();
    button().click();
    while (button().getAttribute("aria-pressed") !== "true") await new Promise((resolve) => requestAnimationFrame(resolve));
    const took = performance.now() - began;
    button().click();
    return took;
  });
}

function until(time: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, time - Date.now())));
}
