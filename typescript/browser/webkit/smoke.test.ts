// WebKit, as Safari has it: keys, the journal, locks, a reload with pending work.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { rule } from "../../client/test/support/rules.ts";
import { Site } from "../support.ts";
import { WebKit } from "./driver.ts";

let site: Site;
let webkit: WebKit;
before(async () => {
  site = await Site.open();
  webkit = await WebKit.open();
});
after(async () => {
  await webkit?.close();
  await site?.close();
});

/** Opens the page, and the space in it. */
async function enter(): Promise<void> {
  await webkit.goto(site.origin);
  await webkit.evaluate(async (url) => {
    const db = await window.stemma.connect(url, { journal: true, settings: { mostPauseMs: 300 } });
    window.space = await db.space("webkit");
    window.watch = window.space.watch("urn:todo:*");
  }, site.server.url);
}

async function write(id: string, title: string): Promise<void> {
  await webkit.evaluate(async (id, title) => {
    window.tx = await window.space.transaction((tx) => tx.set(id, { title, n: 9007199254740993n }, { blind: true }));
    await window.tx.journaled();
  }, id, title);
}

rule("TS-2", "TS-6", "TS-7", "TS-8").test("WebKit: a write is confirmed; pending work survives a reload, is shown and confirmed once", async () => {
  await enter();
  await webkit.evaluate(() => window.watch.ready);
  await write("urn:todo:1", "online");
  await webkit.evaluate(() => window.tx.confirmed());
  await site.server.stop();
  await write("urn:todo:2", "offline");
  const session = await webkit.evaluate(() => window.space.pending()[0]!.session);
  await enter();
  const again = await webkit.evaluate(() => {
    const { adoption, journal } = window.space.status();
    const [one, ...more] = window.space.pending();
    return { adoption, journal, session: one?.session, more: more.length, shown: String(window.space.peek("urn:todo:2", "/n")) };
  });
  assert.deepEqual({ ...again, journal: ["persistent", "evictable"].includes(again.journal) }, { adoption: true, journal: true, session, more: 0, shown: "9007199254740993" });
  await site.server.resume();
  const settled = await webkit.evaluate(async () => {
    await window.space.settled();
    await window.watch.ready;
    let commits = 0;
    for await (const _ of window.space.log({ prefix: "urn:todo:2" })) commits += 1;
    return { commits, size: window.watch.current().size, rejected: window.space.rejected().length };
  });
  assert.deepEqual(settled, { commits: 1, size: 2, rejected: 0 });
});
