// The example app, as a user meets it: a thousand todos, a server that goes away, a browser that is killed.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { World } from "./support.ts";

let world: World;
before(async () => void (world = await World.open()));
after(async () => world?.close()); // undefined where no test was chosen

const TODOS = 1_000;
/** By the clock: a tab in the background draws nothing. */
const WAIT = { timeout: 20_000, polling: 100 };
const open = (): Promise<Page> => world.page(`/example?space=example&server=${encodeURIComponent(world.server.url)}`);

async function shows(page: Page, text: string): Promise<void> {
  await page.waitForFunction((text) => document.querySelector("#status")?.textContent?.includes(text), WAIT, text);
}

async function ticked(page: Page, count: number): Promise<void> {
  const holds = (count: number, all: number): boolean =>
    document.querySelectorAll("li").length === all && document.querySelectorAll("li input:checked").length === count;
  await page.waitForFunction(holds, WAIT, count, TODOS);
}

rule("TS-7", "TS-8", "NURSERY-7").test("tick a todo while the server is away, kill the browser, open again: confirmed once", async () => {
  const filler = await world.tab("example");
  await filler.evaluate(async (count) => {
    for (let batch = 0; batch < count; batch += 100) {
      await window.space.transaction((tx) => {
        for (let n = batch; n < batch + 100; n += 1) tx.set(`urn:todo:${String(n).padStart(4, "0")}`, { title: `todo ${n}`, done: false });
      });
    }
    await window.space.settled();
  }, TODOS);
  const page = await open();
  await ticked(page, 0);
  await shows(page, "open · 0 pending");
  await world.server.stop();
  await shows(page, "offline");
  await page.click("li input");
  await shows(page, "1 pending");
  await ticked(page, 1);
  await new Promise((resolve) => setTimeout(resolve, 300)); // the journal has it
  await world.kill();
  await world.launch();
  const again = await open();
  await shows(again, "1 pending");
  await world.server.resume();
  await shows(again, "open · 0 pending · 0 rejected");
  await ticked(again, 1);
  const other = await open();
  await ticked(other, 1);
  const looker = await world.tab("example");
  const commits = await looker.evaluate(async () => {
    let found = 0;
    for await (const entry of window.space.history("urn:todo:0000")) found += entry.kind === "patch" ? 1 : 0;
    return found;
  });
  assert.equal(commits, 1);
  await other.bringToFront();
  await other.click("#branch");
  await other.waitForFunction(() => document.querySelector("h1")!.textContent!.includes("try-"), WAIT);
  await ticked(other, 1);
  await other.click("li:nth-child(2) input");
  await ticked(other, 2);
  await shows(other, "0 pending");
  await ticked(again, 1);
  await other.click("#branch");
  await ticked(again, 2);
});
