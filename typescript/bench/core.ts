// `node --conditions=stemmadb-source --expose-gc bench/core.ts` in typescript/; with `chromium` behind it in a page, where
// it also measures `journaled()` against a real server.
import { fileURLToPath } from "node:url";
import { World } from "../browser/support.ts";
import { keep, times } from "./measures.ts";

type Heap = () => Promise<number>;
type Keep = (kind: "ours" | "plain") => void | Promise<void>;

async function memory(heap: Heap, keep: Keep): Promise<string> {
  const sizes = { ours: 0, plain: 0 };
  for (const kind of ["ours", "plain", "ours", "plain"] as const) { // the first round also holds what is made once
    const before = await heap();
    await keep(kind);
    sizes[kind] = (await heap()) - before;
  }
  const { ours, plain } = sizes;
  return `memory of 10,000 entities: ${(ours / 1024).toFixed(0)} KiB; in a plain map ${(plain / 1024).toFixed(0)} KiB, ${(ours / plain).toFixed(2)} x`;
}

async function inNode(): Promise<void> {
  for (const line of times()) console.log(line);
  const { gc } = globalThis;
  if (gc === undefined) throw new Error("start node with --expose-gc");
  console.log(await memory(async () => (await gc(), process.memoryUsage().heapUsed), keep));
}

async function inChromium(): Promise<void> {
  const world = await World.open({ "/bench.js": fileURLToPath(new URL("page.ts", import.meta.url)) });
  try {
    const page = await world.page("/bench");
    for (const line of await page.evaluate(() => window.bench.times())) console.log(line);
    const devtools = await page.createCDPSession();
    const heap = async (): Promise<number> => {
      await devtools.send("HeapProfiler.collectGarbage");
      return (await devtools.send("Runtime.getHeapUsage")).usedSize;
    };
    console.log(await memory(heap, (kind) => page.evaluate((kind) => window.bench.keep(kind), kind)));
    const tab = await world.tab("bench");
    const p50 = await tab.evaluate(async () => {
      const times: number[] = [];
      for (let n = 0; n < 200; n += 1) {
        const tx = await window.space.transaction((tx) => tx.set(`urn:todo:${n}`, { n }, { blind: true }));
        const began = performance.now();
        await tx.journaled();
        times.push(performance.now() - began);
      }
      return times.sort((one, other) => one - other)[100]!;
    });
    console.log(`journaled(), p50 of 200: ${p50.toFixed(2)} ms`);
  } finally {
    await world.close();
  }
}

await (process.argv[2] === "chromium" ? inChromium() : inNode());
