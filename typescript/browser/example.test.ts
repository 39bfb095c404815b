// The example app, as a user meets it: a thousand todos, a server that goes away, a browser that is killed.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import type { Page, Target } from "puppeteer-core";
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

/** How many undecided commits the journal of the space has. */
function journaled(page: Page): Promise<number> {
  return page.evaluate(async () => {
    const name = (await indexedDB.databases()).find((one) => one.name!.startsWith("stemmadb:"))!.name!;
    const database = await new Promise<IDBDatabase>((resolve) => (indexedDB.open(name).onsuccess = (event) => resolve((event.target as IDBOpenDBRequest).result)));
    const pending = database.transaction("pending").objectStore("pending").count();
    await new Promise((resolve) => (pending.onsuccess = resolve));
    database.close();
    return pending.result;
  });
}

/** What Duplicate Tab makes of a page: the same address, and a copy of its sessionStorage. */
async function duplicated(page: Page): Promise<Page> {
  const [target] = await Promise.all([
    new Promise<Target>((resolve) => world.browser.once("targetcreated", resolve)),
    page.evaluate(() => void window.open(location.href)),
  ]);
  const copy = (await target.page())!;
  await copy.waitForSelector("#status");
  return copy;
}

rule("TS-7", "TS-8", "NURSERY-7").test("tick a todo while the server is away, kill the browser, open again: confirmed once; Duplicate Tab: two sessions", async () => {
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
  while ((await journaled(page)) === 0); // it is there once the transaction is
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
  const copy = await duplicated(again);
  await ticked(copy, 1);
  await world.server.stop();
  for (const [index, one] of [again, copy].entries()) {
    await shows(one, "offline");
    await one.bringToFront();
    await one.click(`li:nth-child(${index + 3}) input`);
    await shows(one, "1 pending"); // and not what the other one made
    await ticked(one, 2);
  }
  await world.server.resume();
  for (const one of [again, copy, other]) {
    await ticked(one, 3);
    await shows(one, "0 pending · 0 rejected");
  }
  const sessions = await looker.evaluate(async () => {
    const found: (string | undefined)[] = [];
    for await (const entry of window.space.log({ limit: 2 })) if (found.push(entry.session) === 2) break;
    return found;
  });
  assert.equal(new Set(sessions).size, 2, "each tab has a session of its own");
  await other.bringToFront();
  await other.click("#branch");
  await other.waitForFunction(() => document.querySelector("h1")!.textContent!.includes("try-"), WAIT);
  await ticked(other, 3);
  await other.click("li:nth-child(2) input");
  await ticked(other, 4);
  await shows(other, "0 pending");
  await ticked(again, 3);
  await other.click("#branch");
  await ticked(again, 4);
});
