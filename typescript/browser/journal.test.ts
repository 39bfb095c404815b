import assert from "node:assert/strict";
import { after, before } from "node:test";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { commits, pending, settled, write } from "./steps.ts";
import { FIREFOX, until, World } from "./support.ts";

let world: World;
before(async () => void (world = await World.open()));
after(async () => world?.close()); // undefined where no test was chosen

rule("TS-7", "TS-8").test("reload with pending work: it is still there, shown, and confirmed once (quick)", async () => {
  const page = await world.tab("reload");
  await page.evaluate(() => window.watch.ready);
  await write(page, "urn:todo:0", "before");
  await settled(page);
  await world.server.stop();
  await write(page, "urn:todo:1", "offline");
  assert.equal(await page.evaluate(() => window.watch.current().size), 2);
  const session = await page.evaluate(() => window.space.pending()[0]!.session);
  await page.reload();
  await world.enter(page, "reload");
  assert.equal(await pending(page), 1);
  assert.deepEqual(await page.evaluate(() => window.space.peek("urn:todo:1")), { title: "offline" }, "shown without the server");
  await world.server.resume();
  await settled(page);
  await until(page, () => window.watch.current().size === 2);
  assert.equal(await commits(page, "urn:todo:1"), 1);
  await write(page, "urn:todo:2", "after");
  assert.notEqual(await page.evaluate(() => (window.space.pending()[0] ?? { session: "" }).session), session, "a page load has a session of its own");
  await settled(page);
  await page.close();
});

rule("TS-7", "RESUME-2").test("kill of the browser between journaled() and the verdict: exactly once (quick)", async () => {
  const page = await world.tab("killed");
  await page.evaluate(() => window.watch.ready);
  await page.evaluate(async () => {
    const made = Array.from({ length: 20 }, (_, n) => window.space.transaction((tx) => tx.set(`urn:todo:${n}`, n, { blind: true })));
    await Promise.all((await Promise.all(made)).map((tx) => tx.journaled()));
  });
  await world.kill();
  await world.launch();
  const again = await world.tab("killed");
  await settled(again);
  await until(again, () => window.watch.current().size === 20);
  assert.equal(await again.evaluate(() => window.space.rejected().length), 0);
  assert.equal(await commits(again, "urn:todo:"), 20);
  await again.close();
});

rule("TS-8").test("two tabs show a commit once each, and only one of two adopts a session (quick)", async () => {
  const [one, two] = [await world.tab("tabs"), await world.tab("tabs")];
  for (const page of [one, two]) await page.evaluate(() => window.watch.ready);
  await write(one, "urn:todo:1", "one");
  await until(two, () => window.watch.current().size === 1);
  await settled(one);
  await world.server.stop();
  await write(one, "urn:todo:2", "left behind");
  assert.equal(await pending(two), 0, "the session of a living tab is not adopted");
  await one.close();
  const pages = await Promise.all([world.page(), world.page()]);
  await Promise.all(pages.map((page) => world.enter(page, "tabs")));
  const counts = await Promise.all(pages.map(pending));
  assert.deepEqual(counts.sort(), [0, 1], "two at once, and one has it");
  await world.server.resume();
  for (const page of pages) await settled(page);
  for (const page of [two, ...pages]) await until(page, () => window.watch.current().size === 2);
  assert.equal(await commits(two, "urn:todo:2"), 1);
  for (const page of [two, ...pages]) await page.close();
});

rule("TS-8").test("a frozen tab keeps its session, and goes on with it when it wakes", async () => {
  const page = await world.tab("frozen");
  await page.evaluate(() => window.watch.ready);
  await world.server.stop();
  await write(page, "urn:todo:1", "frozen");
  const devtools = await page.createCDPSession();
  await devtools.send("Page.setWebLifecycleState", { state: "frozen" });
  await world.server.resume();
  const other = await world.tab("frozen");
  await new Promise((resolve) => setTimeout(resolve, 500));
  assert.equal(await pending(other), 0, "it may wake: its work is not adopted");
  await devtools.send("Page.setWebLifecycleState", { state: "active" });
  await page.bringToFront();
  await settled(page);
  await until(other, () => window.watch.current().size === 1);
  assert.equal(await commits(other, "urn:todo:1"), 1);
  await page.close();
  await other.close();
}, FIREFOX && "Firefox freezes no tabs: it has no `freeze` event");

rule("TS-7").test("a database that is deleted underneath is reported, nothing is taken, and reading goes on", async () => {
  const page = await world.tab("deleted");
  await page.evaluate(() => window.watch.ready);
  await write(page, "urn:todo:1", "kept");
  await settled(page);
  await page.evaluate(async () => {
    for (const { name } of await indexedDB.databases()) {
      if (name!.includes(window.space.did)) await new Promise((resolve) => (indexedDB.deleteDatabase(name!).onsuccess = resolve));
    }
  });
  const code = await page.evaluate(async () => {
    const tx = await window.space.transaction((tx) => tx.set("urn:todo:2", 2));
    return tx.journaled().then(() => "kept", (error: { code: string }) => error.code);
  });
  assert.equal(code, "journal_failed");
  const after = await page.evaluate(async () => {
    const refused = await window.space.transaction((tx) => tx.set("urn:todo:3", 3)).catch((error: { code: string }) => error.code);
    return [refused, window.space.status().journal, window.watch.current().size, await window.space.get("urn:todo:1")];
  });
  assert.deepEqual(after, ["journal_failed", "failed", 1, { title: "kept" }]);
  await page.close();
});

rule("TS-8").test("ten tabs of one principal write at once, and all see everything once", async () => {
  const pages = [];
  for (let index = 0; index < 10; index += 1) pages.push(await world.tab("ten"));
  await Promise.all(pages.map((page, n) => page.evaluate(async (n) => {
    for (let index = 0; index < 5; index += 1) await window.space.transaction((tx) => tx.set(`urn:todo:${n}-${index}`, index));
    await window.space.settled();
  }, n)));
  for (const page of pages) await until(page, () => window.watch.current().size === 50);
  assert.equal(await commits(pages[0]!, "urn:todo:"), 50);
  for (const page of pages) await page.close();
});

const open = (url: string): Promise<string> => window.stemma.connect(url, { journal: true }).then((db) => db.space("left")).then(() => "open");

/** Goes back in the page: drivers do not see a page that was kept come back. What it does then, another page sees. */
async function goBack(page: Page): Promise<void> {
  await page.evaluate(() => void setTimeout(() => history.back())).catch(() => undefined);
}

rule("TS-12").test("a page that first opens its databases while it is left blocks no other page (quick)", async () => {
  const context = await world.browser.createBrowserContext(); // no database is there yet
  const page = await world.page("/", context);
  await page.evaluate((text, url) => {
    const open = new Function(`return ${text}`)() as (url: string) => Promise<string>;
    localStorage.clear();
    addEventListener("pagehide", () => void open(url).then((said) => (localStorage["opened"] = said)));
    addEventListener("pageshow", (event) => void (localStorage["isKept"] = event.persisted));
  }, open.toString(), world.server.url);
  await page.goto(page.url() + "elsewhere");
  const other = await world.page("/", context);
  assert.equal(await other.evaluate(open, world.server.url), "open");
  await goBack(page);
  await until(other, () => localStorage["isKept"] === "true");
  await until(other, () => localStorage["opened"] === "open"); // it goes on when it is shown again
  await context.close();
});

rule("TS-12").test("a page that is left when its upgrade is complete, and has not heard of it, opens the database again", async () => {
  const context = await world.browser.createBrowserContext();
  const page = await world.page("/", context);
  const failures: string[] = [];
  page.on("pageerror", (error) => failures.push(String(error)));
  await page.evaluate(() => {
    const left = (): boolean => dispatchEvent(new PageTransitionEvent("pagehide")) && dispatchEvent(new PageTransitionEvent("pageshow"));
    const open = IDBFactory.prototype.open;
    IDBFactory.prototype.open = function (...given) {
      IDBFactory.prototype.open = open; // the first one only
      const request = open.apply(this, given);
      request.addEventListener("upgradeneeded", () => request.transaction!.addEventListener("complete", left));
      return request;
    };
  });
  assert.equal(await page.evaluate(open, world.server.url), "open");
  assert.deepEqual(failures, []);
  await context.close();
});

rule("TS-12").test("a page that is left in the middle of an opening is not kept (quick)", async () => {
  const page = await world.page();
  await page.evaluate((url) => {
    IDBFactory.prototype.open = () => new EventTarget() as IDBOpenDBRequest; // one that never answers
    void window.stemma.connect(url);
    window.opened = Promise.resolve("asked");
  }, world.server.url);
  await page.goto(page.url() + "elsewhere");
  await page.goBack();
  assert.equal(await page.evaluate(() => window.opened), undefined, "it is a new page");
  await page.close();
});

rule("TS-12").test("a page that is left and shown again goes on with its journal; while it is away, nobody waits for it (quick)", async () => {
  const page = await world.tab("away");
  await write(page, "urn:todo:1", "before");
  await settled(page);
  const name = await page.evaluate(() => {
    addEventListener("pageshow", (event) => void (window.isBack = event.persisted));
    return indexedDB.databases().then((all) => all.find((one) => one.name!.includes(window.space.did))!.name!);
  });
  await page.goto(page.url() + "elsewhere");
  const other = await world.page();
  const upgraded = await other.evaluate((name) => new Promise((resolve) => {
    const request = indexedDB.open(name, 2);
    request.onupgradeneeded = () => {
      resolve("upgraded");
      request.transaction!.abort();
    };
    request.onblocked = () => resolve("blocked");
  }), name);
  assert.equal(upgraded, "upgraded");
  await page.goBack();
  // Firefox keeps no page that holds a Web Lock: what comes back is a new page.
  assert.equal(await page.evaluate(() => window.isBack), FIREFOX ? undefined : true);
  if (FIREFOX) await world.enter(page, "away");
  await write(page, "urn:todo:2", "after");
  await settled(page);
  assert.equal(await commits(page, "urn:todo:"), 2);
  await page.close();
  await other.close();
});
