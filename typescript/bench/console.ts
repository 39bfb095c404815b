// The console on a large space, in typescript/: `node --conditions=stemmadb-source bench/console.ts --commits 10000 --entities 10000`.
// Prints the first load, the first rows of each screen, one step of the timeline and the longest frame of a drag. With `--minutes 10`
// it looks at Live for so long, at `--rate` changes a second. `--data DIRECTORY` takes a space that benchmarks/ours/large_space.py wrote.
import { connect, type Identity, identityFromSeed, type Space } from "@stemmadb/client";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Page } from "puppeteer-core";
import { ConsoleWorld, PYTHON, ROOT } from "../browser/console_support.ts";
import { watched } from "../browser/console_live.ts";
import { buildConsole } from "../console/build.ts";

const STEPS = 60;
const TODOS = "prefix=urn%3Atodo%3A";
const SCREENS: readonly (readonly [string, string, string])[] = [
  ["rows of a prefix", `/entities?${TODOS}`, "[data-row]"], ["rows of everything", "/entities", "[data-row]"], ["rows of the past", "/entities?at=50%", "[data-row]"],
  ["an entity", "/entity?id=urn%3Atodo%3A7", ".json"], ["its history", "/entity?id=urn%3Atodo%3A7&tab=history", "[data-row]"], ["its blame", "/entity?id=urn%3Atodo%3A7&tab=blame", ".gutter .version"],
  ["commits", "/commits", "[data-row]"], ["commits of a prefix", `/commits?${TODOS}`, "[data-row]"], ["branches", "/branches", ".point"], ["a merge", "/merge?source=draft-0003&target=main", "[data-testid=dry-run]"],
  ["a diff", "/diff?from=main@90%&to=main@91%", ".fact-main"], ["live", "/live", "[data-row]"],
];

const { values: given } = parseArgs({ options: {
  commits: { type: "string", default: "10000" }, entities: { type: "string", default: "10000" }, branches: { type: "string", default: "10" },
  data: { type: "string" }, minutes: { type: "string", default: "0" }, rate: { type: "string", default: "100" }, screens: { type: "boolean", default: false },
} });

/** The seeds of benchmarks/ours/engine.py. */
function seeded(letter: string): Promise<Identity> {
  return identityFromSeed(new Uint8Array(32).fill(letter.charCodeAt(0), 31));
}

function line(name: string, times: readonly number[]): void {
  const sorted = [...times].sort((one, other) => one - other);
  const at = (q: number): string => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))]!.toFixed(0);
  console.log(`${name}: p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, most ${at(1)} ms (${sorted.length})`);
}

/** From the address until the first of what is looked for is drawn, in a new tab. */
async function shownFirst(world: ConsoleWorld, path: string, wanted: string): Promise<{ page: Page; ms: number }> {
  const page = await world.tab("/console");
  const began = performance.now();
  await page.goto(world.origin + path, { waitUntil: "domcontentloaded" });
  await page.waitForSelector(wanted, { timeout: 120_000 });
  return { page, ms: performance.now() - began };
}

/** One key, until the table of the new moment is drawn. */
function steps(page: Page, key: string, count: number): Promise<number[]> {
  return page.evaluate(async (key, count) => {
    const frame = (): Promise<number> => new Promise((resolve) => requestAnimationFrame(resolve));
    const shown = (): string | undefined => document.querySelector<HTMLElement>("[data-version]")?.dataset["version"];
    const times: number[] = [];
    for (let n = 0; n < count; n += 1) {
      const before = shown();
      const began = performance.now();
      dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      while (shown() === before || shown() !== new URLSearchParams(location.search).get("at")) await frame();
      await frame();
      times.push(performance.now() - began);
    }
    return times;
  }, key, count);
}

/** A press on the timeline far from the last, until the table of that moment is drawn. */
function jumps(page: Page, count: number): Promise<number[]> {
  return page.evaluate(async (count) => {
    const frame = (): Promise<number> => new Promise((resolve) => requestAnimationFrame(resolve));
    const track = document.querySelector<HTMLElement>(".track")!;
    const box = track.getBoundingClientRect();
    track.setPointerCapture = () => undefined;
    const point = (type: string, place: number): boolean => track.dispatchEvent(new PointerEvent(type, { bubbles: true, clientX: box.left + box.width * place, clientY: box.top + 20, pointerId: 1, button: 0 }));
    const times: number[] = [];
    for (let n = 0; n < count; n += 1) {
      const began = performance.now();
      point("pointerdown", 0.1 + (0.8 * ((n * 37) % count)) / count);
      point("pointerup", 0);
      await frame();
      while (document.querySelector<HTMLElement>("[data-version]")?.dataset["version"] !== new URLSearchParams(location.search).get("at")) await frame();
      await frame();
      times.push(performance.now() - began);
    }
    return times;
  }, count);
}

/** Frames as the page sees them, and what its main thread computed in one go: that depends less on what else the machine does. */
async function drag(page: Page): Promise<string> {
  const client = await page.createCDPSession();
  const events: TraceEvent[] = [];
  client.on("Tracing.dataCollected", ({ value }) => void events.push(...(value as TraceEvent[])));
  const isOver = new Promise((resolve) => client.once("Tracing.tracingComplete", resolve));
  await client.send("Tracing.start", { traceConfig: { includedCategories: ["toplevel", "devtools.timeline"] } });
  await page.evaluate(() => {
    const record = { frames: [] as number[], last: 0, isOver: false };
    (globalThis as unknown as { record: typeof record }).record = record;
    const frame = (now: number): void => {
      if (record.last) record.frames.push(now - record.last);
      record.last = now;
      if (!record.isOver) requestAnimationFrame(frame);
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
  const frames = await page.evaluate(() => {
    const { record } = globalThis as unknown as { record: { frames: number[]; isOver: boolean } };
    record.isOver = true;
    return record.frames.sort((one, other) => other - one);
  });
  await client.send("Tracing.end");
  await isOver;
  await client.detach();
  const place = (one: TraceEvent): string => `${one.pid} ${one.tid}`;
  const main = events.find((one) => one.name === "UpdateLayoutTree" || one.name === "Layout");
  const tasks = events.filter((one) => main !== undefined && place(one) === place(main) && one.ph === "X" && one.name.endsWith("RunTask"));
  const cpu = Math.max(0, ...tasks.map((one) => (one.tdur ?? 0) / 1_000));
  return `${frames.length} frames, the longest ${frames.slice(0, 3).map((one) => one.toFixed(0)).join(", ")} ms; the longest task computed ${cpu.toFixed(0)} ms`;
}

interface TraceEvent { name: string; ph: string; pid: number; tid: number; tdur?: number }

async function looked(world: ConsoleWorld, space: Space): Promise<void> {
  const base = `/console/${space.did}`;
  const head = await space.follow();
  for (const round of ["first", "again"]) {
    for (const [name, path, wanted] of SCREENS.slice(0, given.screens || round === "first" ? undefined : 2)) {
      const exact = path.replaceAll(/(\d+)%(?=&|$)/g, (_, part: string) => String(Math.floor((head * Number(part)) / 100)));
      const { page, ms } = await shownFirst(world, base + exact, wanted);
      console.log(`${round}, ${name}: ${ms.toFixed(0)} ms`);
      await page.close();
    }
  }
  for (const [name, path] of [["a prefix of 100 rows", `/entities?${TODOS}`], ["everything, 100 rows of it", "/entities"]] as const) {
    const { page } = await shownFirst(world, base + path, "[data-row]");
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    line(`${name}: a step back`, await steps(page, "[", STEPS));
    line(`${name}: a step forward`, await steps(page, "]", STEPS - 1));
    line(`${name}: a jump of the handle`, await jumps(page, STEPS));
    for (let turn = 0; turn < 3; turn += 1) console.log(`${name}: a drag of 150 moves: ${await drag(page)}`);
    await page.close();
  }
}

const made = given.data ?? mkdtempSync(join(tmpdir(), "stemmadb-large-"));
let world: ConsoleWorld | undefined;
try {
  if (given.data === undefined) execFileSync(PYTHON, ["-m", "benchmarks.ours.large_space", made, "--commits", given.commits, "--entities", given.entities, "--branches", given.branches], { cwd: ROOT, stdio: "ignore" });
  console.log(`first load: ${((await buildConsole()) / 1024).toFixed(1)} KiB gzipped`);
  world = await ConsoleWorld.open("--data", made);
  const [owner, did] = [await connect(world.server.url, { signer: await seeded("2") }), (await seeded("1")).did];
  const space = await owner.space(did);
  await world.letIn(space, "read", space);
  console.log(`${(await space.follow()).toLocaleString("en")} versions`);
  if (Number(given.minutes) === 0) await looked(world, space);
  else console.log(await watched(world, space, { minutes: Number(given.minutes), rate: Number(given.rate), say: console.log }));
  await owner.close({ waitMs: 0 });
  if (world.complaints.length) console.log("complaints:", world.complaints.slice(0, 5));
} finally {
  await world?.close();
  if (given.data === undefined) rmSync(made, { recursive: true, force: true });
}
