// Several tabs of one principal: duplicated ones, hidden ones, and one that wakes and finds its session with another.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { rule } from "../client/test/support/rules.ts";
import { commits, pending, settled, write } from "./steps.ts";
import { FIREFOX, until, World } from "./support.ts";

let world: World;
before(async () => void (world = await World.open()));
after(async () => world?.close()); // undefined where no test was chosen

rule("TS-8").test("Duplicate Tab: two sessions, and pending work is shown by one of them", async () => {
  const page = await world.tab("duplicate");
  await page.evaluate(() => window.watch.ready);
  await world.server.stop();
  await write(page, "urn:todo:1", "pending");
  const opened = new Promise<void>((resolve) => world.browser.once("targetcreated", () => resolve()));
  await page.evaluate(() => {
    sessionStorage["copied"] = "yes"; // as Duplicate Tab does, a window that is opened by a page gets a copy of this
    window.open(location.href);
  });
  await opened;
  const copy = (await world.browser.pages()).at(-1)!;
  assert.notEqual(copy, page);
  await copy.waitForFunction(() => window.stemma !== undefined);
  assert.equal(await copy.evaluate(() => sessionStorage["copied"]), "yes");
  await world.enter(copy, "duplicate");
  await write(copy, "urn:todo:2", "pending, too");
  const sessions = await Promise.all([page, copy].map((one) => one.evaluate(() => window.space.pending().map(({ session }) => session))));
  assert.deepEqual(sessions.map((some) => some.length), [1, 1]);
  assert.notEqual(sessions[0]![0], sessions[1]![0]);
  await world.server.resume();
  for (const one of [page, copy]) await settled(one);
  for (const one of [page, copy]) await until(one, () => window.watch.current().size === 2);
  assert.equal(await commits(page, "urn:todo:"), 2);
  await copy.close();
  await page.close();
});

rule("TS-8", "NURSERY-5").test("a tab that wakes and finds its session with another tab leaves its work there and goes on in a new one", async () => {
  const owner = await world.tab("woken");
  await owner.evaluate(() => window.watch.ready);
  await world.server.stop();
  await write(owner, "urn:todo:1", "adopted");
  const session = await owner.evaluate(() => window.space.pending()[0]!.session);
  await owner.evaluate(() => void (window.opened = window.tx.confirmed().then(() => "confirmed", (error: { code: string }) => error.code)));
  const devtools = await owner.createCDPSession();
  await devtools.send("Page.setWebLifecycleState", { state: "frozen" });
  const heir = await world.page();
  await heir.evaluate(async (session) => { // what a browser does that gives a frozen page up and shows it all the same
    const { held } = await navigator.locks.query();
    const { name } = held!.find((one) => one.name!.endsWith(session))!;
    await navigator.locks.request(name!, { steal: true }, async () => {});
  }, session);
  await world.enter(heir, "woken");
  assert.deepEqual(await heir.evaluate(() => window.space.pending().map(({ session }) => session)), [session]);
  await devtools.send("Page.setWebLifecycleState", { state: "active" });
  await owner.bringToFront();
  await until(owner, () => window.space.pending().length === 0);
  assert.equal(await owner.evaluate(() => window.opened), "taken_over");
  await world.server.resume();
  await settled(heir);
  await until(owner, () => window.watch.current().size === 1);
  await write(owner, "urn:todo:2", "after");
  assert.notEqual(await owner.evaluate(() => window.tx.status === "pending" && window.space.pending()[0]?.session), session);
  await settled(owner);
  await until(heir, () => window.watch.current().size === 2);
  assert.equal(await commits(heir, "urn:todo:"), 2);
  assert.deepEqual([await pending(owner), await pending(heir)], [0, 0]);
  await owner.close();
  await heir.close();
}, FIREFOX && "Firefox freezes no tabs: it has no `freeze` event");

rule("RESUME-5", "TS-11").test("a hidden tab goes on, and connects at once when it is shown, however long its pause", async () => {
  const page = await world.page();
  await page.evaluate(async (url) => {
    const db = await window.stemma.connect(url, { journal: true, settings: { firstPauseMs: 2_000_000_000, mostPauseMs: 2_000_000_000 } });
    window.space = await db.space("hidden");
    window.watch = window.space.watch("urn:todo:*");
    await window.watch.ready;
  }, world.server.url);
  const set = (state: "hidden" | "visible"): Promise<void> => page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);
  const other = await world.tab("hidden");
  await other.bringToFront();
  await set("hidden");
  await write(other, "urn:todo:1", "seen in the background");
  await until(page, () => window.watch.current().size === 1);
  await world.server.stop();
  await until(page, () => window.space.status().link === "offline");
  await write(page, "urn:todo:2", "made in the background");
  await world.server.resume();
  await settled(other);
  assert.equal(await page.evaluate(() => window.space.status().link), "offline");
  await page.bringToFront();
  await set("visible");
  await settled(page);
  await until(other, () => window.watch.current().size === 2);
  await page.close();
  await other.close();
});
