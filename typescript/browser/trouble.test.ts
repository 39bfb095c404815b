// What happens to a page beside reloads and lost connections: its storage, its clock and its server go wrong.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { commits, pending, settled, write } from "./steps.ts";
import { FIREFOX, until, World } from "./support.ts";

let world: World;
before(async () => void (world = await World.open()));
after(async () => world?.close()); // undefined where no test was chosen

/** What opening the space comes to: "open", or the code of the error and what it says. */
function opening(page: Page, name: string): Promise<string> {
  return page.evaluate(async (url, name) => {
    const db = await window.stemma.connect(url, { journal: true });
    return db.space(name).then(() => "open", (error: { code?: string; message: string }) => `${error.code}: ${error.message}`);
  }, world.server.url, name);
}

/** Lets a script change the journal of a space while nobody has it open. */
async function inJournal(page: Page, did: string, version: number, act: (database: IDBDatabase) => void): Promise<void> {
  await page.evaluate(async (did, version, text) => {
    const name = (await indexedDB.databases()).find((one) => one.name!.includes(did))!.name!;
    const database = await new Promise<IDBDatabase>((resolve, reject) => {
      const request = indexedDB.open(name, version);
      request.onerror = () => reject(request.error);
      request.onsuccess = () => resolve(request.result);
    });
    await (new Function(`return ${text}`)() as (database: IDBDatabase) => Promise<void> | void)(database);
    database.close();
  }, did, version, act.toString());
}

/** A space with a commit that is only in the journal; its page is closed, and another one is there. */
async function leftBehind(name: string): Promise<{ page: Page; did: string }> {
  const page = await world.tab(name);
  await page.evaluate(() => window.watch.ready);
  await world.server.stop();
  await write(page, "urn:todo:1", "left behind");
  const did = await page.evaluate(() => window.space.did);
  await world.server.resume();
  return { page: await renewed(page), did };
}

/** Another page in its place: one that is only left may be kept, with its lock. */
async function renewed(page: Page): Promise<Page> {
  await page.close();
  return world.page();
}

rule("TS-7", "TS-8").test("a damaged record is one clear error; nothing is lost, and no lock stays behind", async () => {
  let { page, did } = await leftBehind("damaged");
  const damage = async (database: IDBDatabase): Promise<void> => {
    const store = database.transaction("pending", "readwrite").objectStore("pending");
    const rows = await new Promise<{ session: string; local: number }[]>((resolve) => {
      const request = store.getAll();
      request.onsuccess = () => resolve(request.result);
    });
    const [{ session, local }] = rows as [{ session: string; local: number }];
    await new Promise((resolve) => {
      const name = { session, local: local + 1 };
      store.put({ ...name, record: { name, nonce: "AA==", content: '{"operations":[', bases: [] } }).onsuccess = resolve;
    });
  };
  await inJournal(page, did, 1, damage);
  assert.match(await opening(page, "damaged"), /^journal_failed: .*cannot be read/);
  const held = await page.evaluate(() => navigator.locks.query().then(({ held }) => held!.length));
  assert.equal(held, 0, "another page can adopt what is there");
  const mend = (database: IDBDatabase): Promise<void> => new Promise((resolve) => {
    const store = database.transaction("pending", "readwrite").objectStore("pending");
    store.getAllKeys().onsuccess = function () {
      store.delete((this.result as IDBValidKey[]).at(-1)!).onsuccess = () => resolve();
    };
  });
  await inJournal(page, did, 1, mend);
  await world.enter(page, "damaged");
  await settled(page);
  assert.equal(await commits(page, "urn:todo:1"), 1);
  const other = (database: IDBDatabase): Promise<void> => new Promise((resolve) => {
    const store = database.transaction("rejected", "readwrite").objectStore("rejected");
    store.put({ session: "s", local: 1, record: null }).onsuccess = () => resolve();
  });
  page = await renewed(page);
  await inJournal(page, did, 1, other);
  assert.match(await opening(page, "damaged"), /^journal_failed: .*a record of 'rejected' is not what was written/);
  await page.close();
});

rule("TS-7").test("a journal of a newer version is one clear error, and stays as it is", async () => {
  const { page, did } = await leftBehind("newer");
  await inJournal(page, did, 2, () => {});
  assert.match(await opening(page, "newer"), /^journal_failed: /);
  const rows = await page.evaluate(async (did) => {
    const name = (await indexedDB.databases()).find((one) => one.name!.includes(did))!.name!;
    const database = await new Promise<IDBDatabase>((resolve) => (indexedDB.open(name).onsuccess = (event) => resolve((event.target as IDBOpenDBRequest).result)));
    const count = await new Promise<number>((resolve) => (database.transaction("pending").objectStore("pending").count().onsuccess = (event) => resolve((event.target as IDBRequest<number>).result)));
    database.close();
    return [database.version, count];
  }, did);
  assert.deepEqual(rows, [2, 1]);
  await page.close();
});

rule("TS-7", "NURSERY-7").test("storage that is full is reported, nothing more is taken, and reading goes on", async () => {
  const context = await world.browser.createBrowserContext(); // what other tests have stored may shrink at any moment
  const page = await world.page("/", context);
  const devtools = await page.createCDPSession();
  const used = await page.evaluate(() => navigator.storage.estimate().then(({ usage }) => usage!));
  await devtools.send("Storage.overrideQuotaForOrigin", { origin: world.origin, quotaSize: used + 500_000 });
  await world.enter(page, "full");
  await page.evaluate(() => window.watch.ready);
  await write(page, "urn:todo:1", "fits");
  await settled(page);
  const code = await page.evaluate(async () => {
    const large = { title: Array.from({ length: 80_000 }, () => Math.random().toString(36)).join("") };
    const tx = await window.space.transaction((tx) => tx.set("urn:todo:2", large));
    const refused = tx.confirmed().then(() => "", (error: { code: string }) => error.code);
    return [await tx.journaled().then(() => "", (error: { code: string }) => error.code), await refused];
  });
  assert.deepEqual(code, ["journal_failed", "journal_failed"]);
  const after = await page.evaluate(async () => {
    const refused = await window.space.transaction((tx) => tx.set("urn:todo:3", 3)).catch((error: { code: string }) => error.code);
    return [refused, window.space.status().journal, [...window.watch.current().keys()], await window.space.get("urn:todo:1")];
  });
  assert.deepEqual(after, ["journal_failed", "failed", ["urn:todo:1"], { title: "fits" }]);
  await devtools.send("Storage.overrideQuotaForOrigin", { origin: world.origin });
  await page.reload();
  await world.enter(page, "full");
  await write(page, "urn:todo:2", "there is room again");
  await settled(page);
  assert.equal(await commits(page, "urn:todo:2"), 1);
  await context.close();
}, FIREFOX && "Firefox has no quota of one site that a test can set");

rule("TS-7", "TS-12").test("the keys of the browser yield to a page that upgrades or deletes their database", async () => {
  const page = await world.tab("keys");
  const other = await world.page();
  const deleted = await other.evaluate(() => new Promise((resolve) => {
    const request = indexedDB.deleteDatabase("stemmadb");
    request.onsuccess = () => resolve("deleted");
    request.onblocked = () => resolve("blocked");
  }));
  assert.equal(deleted, "deleted");
  await write(page, "urn:todo:1", "with the key it has");
  await settled(page);
  const again = (name: string): Promise<string> => page.evaluate(async (url, name) => {
    const db = await window.stemma.connect(url);
    return db.space(name).then(() => "open", (error: { code: string }) => error.code);
  }, world.server.url, name);
  assert.equal(await again("another"), "open", "it makes another key");
  const upgraded = await other.evaluate(() => new Promise((resolve) => {
    const request = indexedDB.open("stemmadb", 2);
    request.onsuccess = () => (request.result.close(), resolve("upgraded"));
    request.onblocked = () => resolve("blocked");
  }));
  assert.equal(upgraded, "upgraded");
  assert.equal(await page.evaluate((url) => window.stemma.connect(url).then(() => "open", (error: { code: string }) => error.code), world.server.url), "journal_failed");
  await other.evaluate(() => new Promise((resolve) => (indexedDB.deleteDatabase("stemmadb").onsuccess = resolve)));
  await page.close();
  await other.close();
});

rule("TS-7", "RESUME-2", "RESUME-5").test("a clock that jumps loses nothing, does nothing twice, and ends no request", async () => {
  const page = await world.page();
  const day = 86_400_000;
  await page.evaluateOnNewDocument((day) => {
    const real = Date.now.bind(Date);
    let offset = Number(localStorage["offset"] ?? 0);
    Object.defineProperty(window, "shift", { value: (by: number) => void (localStorage["offset"] = offset += by * day) });
    Date.now = () => real() + offset;
  }, day);
  await page.goto(world.origin);
  const shift = (days: number): Promise<void> => page.evaluate((days) => (window as unknown as { shift(by: number): void }).shift(days), days);
  await world.enter(page, "clock");
  await page.evaluate(() => window.watch.ready);
  for (const days of [2, -5]) {
    await write(page, `urn:todo:a${days}`, "before");
    await world.server.stop();
    await write(page, `urn:todo:b${days}`, "pending");
    await page.evaluate(() => void (window.opened = window.space.get<{ title: string }>("urn:other").then(() => "answered", (error: { code: string }) => error.code)));
    await shift(days);
    await page.reload();
    await world.enter(page, "clock");
    assert.equal(await pending(page), 1);
    await world.server.resume();
    await settled(page);
    const asked = page.evaluate(() => window.space.get("urn:other").then(() => "answered", (error: { code: string }) => error.code));
    await shift(days);
    assert.equal(await asked, "answered");
    for (const id of [`urn:todo:a${days}`, `urn:todo:b${days}`]) assert.equal(await commits(page, id), 1);
  }
  await until(page, () => window.watch.current().size === 4);
  await page.close();
});

rule("RESUME-4", "TS-7").test("a server that was restored from an older backup: what it lost is told, what was built on it is refused", async () => {
  const page = await world.tab("restored");
  await page.evaluate(() => window.watch.ready);
  await write(page, "urn:todo:1", "in the backup");
  await settled(page);
  await world.server.stop();
  const putBack = world.server.backup();
  await world.server.resume();
  await write(page, "urn:todo:2", "after the backup");
  await settled(page);
  await world.server.stop();
  await page.evaluate(async () => {
    const tx = await window.space.transaction((tx) => tx.patch("urn:todo:2", [{ op: "replace", path: "/title", value: "built on it" }]));
    await tx.journaled();
  });
  putBack();
  await page.reload();
  await world.enter(page, "restored");
  assert.equal(await pending(page), 1);
  await world.server.resume();
  await settled(page);
  await until(page, () => window.space.rejected().length === 1 && window.watch.current().size === 1);
  const told = await page.evaluate(() => ({
    code: window.space.rejected()[0]!.code, lost: window.space.lost().map((one) => one.content.includes("after the backup")), shown: [...window.watch.current().keys()],
  }));
  assert.deepEqual(told, { code: "conflict", lost: [true], shown: ["urn:todo:1"] });
  await write(page, "urn:todo:3", "it goes on");
  await settled(page);
  assert.equal(await commits(page, "urn:todo:"), 2);
  await page.close();
});
