// The console on a large space: `node --conditions=stemmadb-source bench/console.ts [COMMITS] [ENTITIES] [LIVE SECONDS]` in typescript/.
// Prints the first load, the first rows, one step of the timeline, the longest frame of a drag, and the heap of Live.
import type { Page } from "puppeteer-core";
import { ConsoleWorld } from "../browser/console_support.ts";
import { buildConsole } from "../console/build.ts";

const [commits = 10_000, entities = 10_000, liveSeconds = 0] = process.argv.slice(2).map(Number);
const ROWS = 100;
const STEPS = 80;
const BATCH = 1_000;

function quantile(sorted: readonly number[], q: number): string {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))]!.toFixed(0);
}

async function firstRows(world: ConsoleWorld, path: string): Promise<{ page: Page; ms: number }> {
  const page = await world.tab("/console");
  const began = performance.now();
  await page.goto(world.origin + path, { waitUntil: "domcontentloaded" });
  await page.waitForSelector("[data-row]", { timeout: 60_000 });
  return { page, ms: performance.now() - began };
}

const world = await ConsoleWorld.open();
try {
  console.log(`first load: ${((await buildConsole()) / 1024).toFixed(1)} KiB gzipped`);
  const space = await world.space("large");
  const ada = await world.as("ada", space.did);
  for (let at = 0; at < entities; at += BATCH) {
    await ada.transact((tx) => {
      for (let n = at; n < Math.min(entities, at + BATCH); n += 1) tx.set(`urn:item:${String(n).padStart(7, "0")}`, { name: `item ${n}`, count: 0, done: n % 3 === 0, group: `g${n % 7}` });
    });
  }
  for (let n = 0; n < ROWS; n += 1) await ada.transaction((tx) => tx.set(`urn:todo:${n}`, { title: `task ${n}`, votes: 0, done: false, by: `urn:user:${n % 5}` }));
  const began = performance.now();
  for (let n = 0; n < commits; n += 1) {
    const id = `urn:todo:${(n * 7) % ROWS}`;
    await ada.transaction((tx) => tx.patch(id, [{ op: "replace", path: "/votes", value: n }], { blind: true } as never));
    if (n % 500 === 499) await ada.settled();
  }
  await ada.settled();
  console.log(`filled: ${entities} entities, ${commits} commits in ${((performance.now() - began) / 1_000).toFixed(0)} s`);
  await world.letIn(space, "read");
  const base = `/console/${space.did}`;
  for (const [name, path] of [["rows of the prefix", "/entities?prefix=urn%3Atodo%3A"], ["rows of everything", "/entities"], ["again", "/entities"]] as const) {
    const { page, ms } = await firstRows(world, base + path);
    console.log(`first ${name}: ${ms.toFixed(0)} ms`);
    await page.close();
  }
  const { page } = await firstRows(world, `${base}/entities?prefix=urn%3Atodo%3A`);
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  const steps = await page.evaluate(async (steps) => {
    const frame = (): Promise<number> => new Promise((resolve) => requestAnimationFrame(resolve));
    const shown = (): string | undefined => document.querySelector<HTMLElement>("[data-version]")?.dataset["version"];
    const times: number[] = [];
    for (let n = 0; n < steps; n += 1) {
      const before = shown();
      const began = performance.now();
      dispatchEvent(new KeyboardEvent("keydown", { key: "[", bubbles: true }));
      while (shown() === before || shown() !== new URLSearchParams(location.search).get("at")) await frame();
      await frame();
      times.push(performance.now() - began);
    }
    return times.sort((one, other) => one - other);
  }, STEPS).catch((error: unknown) => {
    console.log(String(error));
    return [NaN];
  });
  console.log(`one step (key, question which commit, table of ${ROWS} rows, drawn): p50 ${quantile(steps, 0.5)} ms, p95 ${quantile(steps, 0.95)} ms, most ${quantile(steps, 1)} ms`);
  const jumps = await page.evaluate(async (steps, commits) => {
    const frame = (): Promise<number> => new Promise((resolve) => requestAnimationFrame(resolve));
    const track = document.querySelector<HTMLElement>(".track")!;
    const box = track.getBoundingClientRect();
    const point = (type: string, place: number): boolean => track.dispatchEvent(new PointerEvent(type, { bubbles: true, clientX: box.left + box.width * place, clientY: box.top + 20, pointerId: 1, button: 0 }));
    track.setPointerCapture = () => undefined;
    const times: number[] = [];
    for (let n = 0; n < steps; n += 1) {
      const began = performance.now();
      point("pointerdown", 0.1 + 0.8 * ((n * 37) % steps) / steps);
      point("pointerup", 0);
      await frame();
      while (document.querySelector<HTMLElement>("[data-version]")?.dataset["version"] !== new URLSearchParams(location.search).get("at")) await frame();
      await frame();
      times.push(performance.now() - began);
    }
    return commits < 0 ? [] : times.sort((one, other) => one - other);
  }, STEPS, commits);
  console.log(`one jump of the handle (table of ${ROWS} rows, drawn): p50 ${quantile(jumps, 0.5)} ms, p95 ${quantile(jumps, 0.95)} ms, most ${quantile(jumps, 1)} ms`);
  await page.evaluate(() => {
    const record = { longest: 0, frames: 0, last: 0, tasks: [] as number[] };
    (globalThis as unknown as { record: typeof record }).record = record;
    new PerformanceObserver((list) => record.tasks.push(...list.getEntries().map((one) => one.duration))).observe({ entryTypes: ["longtask"] });
    const frame = (now: number): void => {
      if (record.last) record.longest = Math.max(record.longest, now - record.last);
      record.last = now;
      record.frames += 1;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  const box = (await (await page.$(".track"))!.boundingBox())!;
  await page.mouse.move(box.x + box.width - 5, box.y + 20);
  await page.mouse.down();
  for (let at = 0; at < 150; at += 1) {
    await page.mouse.move(box.x + box.width * (0.5 + 0.45 * Math.cos(at / 12)), box.y + 20);
    await new Promise((resolve) => setTimeout(resolve, 16));
  }
  await page.mouse.up();
  const dragged = await page.evaluate(() => (globalThis as unknown as { record: { longest: number; frames: number; tasks: number[] } }).record);
  console.log(`a drag of 150 moves: ${dragged.frames} frames, longest between two frames ${dragged.longest.toFixed(0)} ms, tasks over 50 ms: ${dragged.tasks.length} (longest ${Math.max(0, ...dragged.tasks).toFixed(0)} ms)`);
  if (liveSeconds > 0) {
    await page.goto(`${world.origin}${base}/live`);
    await page.waitForSelector("[data-row]");
    const client = await page.createCDPSession();
    const heap = async (): Promise<string> => {
      await client.send("HeapProfiler.collectGarbage");
      return ((await page.metrics()).JSHeapUsedSize! / 1024 / 1024).toFixed(1);
    };
    const seen: string[] = [];
    for (let second = 0; second < liveSeconds; second += 1) {
      const due = Date.now() + 1_000;
      for (let n = 0; n < 100; n += 1) await ada.transaction((tx) => tx.patch(`urn:todo:${n}`, [{ op: "replace", path: "/votes", value: second }], { blind: true } as never));
      await ada.settled();
      if (second % Math.max(1, Math.floor(liveSeconds / 8)) === 0) seen.push(await heap());
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - Date.now())));
    }
    console.log(`live at 100/s for ${liveSeconds} s: heap after a collection ${[...seen, await heap()].join(", ")} MiB; shown: ${await page.$eval("[data-testid=rate]", (one) => one.textContent)}`);
  }
  if (world.complaints.length) console.log("complaints:", world.complaints.slice(0, 5));
} finally {
  await world.close();
}
