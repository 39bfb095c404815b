// Each screen of the console against a real server: what it shows equals what the CLI prints, its states, its accessibility.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach } from "node:test";
import type { Json, Space } from "@stemmadb/client";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { cli, ConsoleWorld, fillDemo, VIEWS } from "./console_support.ts";
import { click, press, says, shownRows, text, violations } from "./console_steps.ts";

const config = mkdtempSync(join(tmpdir(), "stemmadb-config-"));
let world: ConsoleWorld;
let space: Space;
let base: string;
let me: string;
let cliDid: string;

before(async () => {
  world = await ConsoleWorld.open();
  space = await world.space("demo");
  await fillDemo(world, space, 50);
  me = await world.letIn(space, "write");
  base = `/console/${space.did}`;
  cli(world, config, "list", "urn:", "--space", space.did); // makes its key
  cliDid = (cli(world, config, "keys", "list") as { identities: { did: string }[] }).identities[0]!.did;
});
beforeEach(() => void (world.complaints.length = 0));
after(async () => {
  await world?.close();
  rmSync(config, { recursive: true, force: true });
});

const open = (path: string): Promise<Page> => world.tab(base + path);

async function grant(did: string, role: Json | undefined, on = space): Promise<void> {
  const owner = await world.as("owner", on.did);
  await owner.transact(async (tx) => {
    const { [did]: _, ...rights } = (await tx.get(on.did)) as { [did: string]: Json };
    tx.set(on.did, role === undefined ? rights : { ...rights, [did]: role });
  });
}

for (const theme of ["light", "dark"] as const) {
  rule("CONSOLE-8").test(`no violation of WCAG on any screen and state, ${theme}`, async () => {
    const found: string[] = [];
    for (const [name, path, wanted] of VIEWS) {
      const page = await open(path);
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }, { name: "prefers-reduced-motion", value: "reduce" }]);
      await says(page, wanted);
      await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 120)));
      found.push(...(await violations(page)).map((one) => `${name}: ${one}`));
      await world.shot(page, `${name}-${theme}`);
      await page.close();
    }
    const page = await world.tab("/console");
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
    await says(page, "Open a space");
    found.push(...(await violations(page)).map((one) => `connect: ${one}`));
    await page.goto(`${world.origin}/console/pair#1.abcdefghijklmnop`);
    await says(page, "Let this page read");
    found.push(...(await violations(page)).map((one) => `pair: ${one}`));
    await page.close();
    assert.deepEqual(found, []);
    assert.deepEqual(world.complaints, []);
  });
}

rule("CONSOLE-7", "CONSOLE-6").test("each screen shows what the CLI prints at the same moment", async () => {
  await grant(cliDid, "read");
  const run = (...given: string[]): Json => cli(world, config, ...given, "--space", space.did);
  for (const at of [1, 10, 40, 60]) {
    const page = await open(`/entities?prefix=urn%3Atodo%3A&at=${at}`);
    await says(page, at < 4 ? "Nothing was here at this moment" : "urn:todo:1");
    const told = run("list", "urn:todo:", "--at", String(at)) as { entities: { [id: string]: { title: string; votes: number } } };
    const ids = Object.keys(told.entities).sort();
    const rows = at < 4 ? [] : await shownRows(page);
    assert.deepEqual(rows.map((row) => row.id), ids, `@${at}`);
    for (const row of rows) assert.ok(row.cells.includes(told.entities[row.id]!.title) && row.cells.includes(String(told.entities[row.id]!.votes)), JSON.stringify(row));
    await page.close();
  }
  const commits = await open("/commits");
  await says(commits, "rename on main");
  const log = run("log", "--limit", "20") as { entries: { version: number; note: string | null }[] };
  const lines = await commits.$$eval(".fact-body .version", (all) => all.map((one) => Number(one.textContent!.replace(/[@,]/g, ""))));
  assert.deepEqual(lines.slice(0, 20), log.entries.map((one) => one.version).slice(0, lines.length));
  await commits.close();
  const history = await open("/entity?id=urn:todo:1&tab=history");
  await says(history, "rename on main");
  const told = run("history", "urn:todo:1") as { entries: { version: number }[] };
  assert.deepEqual(await history.$$eval(".fact-top .version", (all) => all.map((one) => Number(one.textContent!.slice(1)))), told.entries.map((one) => one.version));
  await history.close();
  const diff = await open("/diff?from=main@30&to=main@60");
  await says(diff, "changed");
  const changes = run("diff", "30", "60") as { changes: { id: string }[] };
  assert.deepEqual((await diff.$$eval(".fact-main.id", (all) => all.map((one) => one.textContent!))).slice(0, 12), changes.changes.map((one) => one.id).slice(0, 12));
  await diff.close();
});

rule("CONSOLE-8").test("the server goes away and comes back while one looks; what was there stays", async () => {
  const page = await open("/entities?prefix=urn%3Atodo%3A");
  await says(page, "urn:todo:10");
  await world.server.stop();
  await says(page, "Offline");
  assert.ok((await text(page, ".rows")).includes("urn:todo:10"));
  await world.server.resume();
  await page.waitForFunction(() => !document.querySelector("#app")!.textContent!.includes("Offline"), { timeout: 20_000 });
  await space.transact((tx) => tx.set("urn:todo:0", { title: "written after the restart" }));
  await says(page, "written after the restart");
  await page.close();
});

rule("CONSOLE-8").test("rights that are taken back while one looks, and given again", async () => {
  const page = await open("/entities");
  await says(page, "urn:todo:10");
  await grant(me, undefined);
  await says(page, "This page");
  await page.waitForSelector(".connect");
  assert.ok((await text(page, ".connect")).includes(me), "it says who it is");
  await grant(me, "write");
  await page.reload();
  await says(page, "urn:todo:10");
  await page.close();
});

rule("MERGE-3").test("a page that may only read sees the preview of a merge and of a revert, and can do neither", async () => {
  const small = await world.space("small");
  await world.letIn(small, "read");
  await small.transact((tx) => tx.set("urn:x:1", { a: 1 }));
  const side = await small.branch("side", { create: true });
  await side.transact((tx) => tx.set("urn:x:1", { a: 2 }), { note: { message: "two" } });
  await small.transact((tx) => tx.set("urn:x:1", { a: 3 }), { note: { message: "three" } });
  const page = await world.tab(`/console/${small.did}/merge?source=side&target=main`);
  await says(page, "1 conflict");
  await page.click("fieldset.conflict label:nth-of-type(2) input");
  await says(page, "All conflicts are settled");
  await says(page, "Preview only: this page may read");
  assert.equal(await page.$eval(".merge-form .primary", (button) => (button as HTMLButtonElement).disabled), true);
  await page.goto(`${world.origin}/console/${small.did}/commits`);
  await says(page, "three");
  await click(page, ".fact-line", "three");
  await says(page, "Take it back");
  await click(page, "button", "Preview");
  await says(page, "Dry run");
  assert.equal(await page.$(".revert .primary"), null);
  await page.close();
});

rule("CONSOLE-6").test("a long list comes in pages, draws what is in sight, and is entered at any id", async () => {
  const many = await world.space("many");
  await world.letIn(many, "read");
  await many.transact((tx) => {
    for (let n = 0; n < 350; n += 1) tx.set(`urn:item:${String(n).padStart(4, "0")}`, { name: `item ${n}` });
  });
  const page = await world.tab(`/console/${many.did}/entities?prefix=urn%3Aitem%3A`);
  await says(page, "1–100 of 350");
  assert.ok((await page.$$("[data-row]")).length < 80);
  await page.$eval(".rows", (box) => (box.scrollTop = box.scrollHeight));
  await click(page, ".foot button", "Load more");
  await says(page, "1–300 of 350");
  await page.type(".jump input", "urn:item:0339");
  await page.keyboard.press("Enter");
  await says(page, "10 of 350, after urn:item:0339");
  assert.deepEqual((await shownRows(page)).map((row) => row.id), Array.from({ length: 10 }, (_, at) => `urn:item:0${340 + at}`));
  await page.close();
});

rule("CONSOLE-6").test("live shows what is written, pauses, and leads to the commit", async () => {
  const page = await open("/live?prefix=urn%3Alive%3A");
  await says(page, "Waiting for the next commit");
  const ada = await world.as("ada", space.did);
  await ada.transact((tx) => tx.set("urn:live:1", { n: 1 }));
  await ada.transact((tx) => tx.patch("urn:live:1", [{ op: "replace", path: "/n", value: 2 }]));
  await ada.transact((tx) => tx.set("urn:todo:3", { title: "not under the prefix" }));
  await says(page, "/n → 2");
  assert.equal((await page.$$(".row")).length, 2);
  await click(page, "button", "Pause");
  await ada.transact((tx) => tx.delete("urn:live:1"));
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 500)));
  assert.equal((await page.$$(".row")).length, 2);
  await click(page, "button", "Go on");
  await says(page, "deleted");
  await click(page, ".flow-version", "@");
  await says(page, "Take it back");
  await page.close();
});

rule("NURSERY-5", "NURSERY-7").test("a commit that was rejected is shown with who won; it is edited, retried and dropped", async () => {
  let page: Page;
  const edit = async (value: string): Promise<void> => {
    await page.waitForSelector(".editor .primary:not(:disabled)");
    await page.$eval("textarea[name=value]", (area, value) => {
      (area as HTMLTextAreaElement).value = value;
      area.dispatchEvent(new Event("input", { bubbles: true }));
    }, value);
    await click(page, ".editor button", "Save");
  };
  /** Written while the server is away, in a tab that is closed; what comes first wins, and the next tab sends the rest. */
  const conflict = async (name: string): Promise<void> => {
    page = await open("/entity?id=urn:user:1&tab=edit");
    await page.waitForSelector(".editor .primary:not(:disabled)");
    await world.server.stop();
    await says(page, "Offline");
    await edit(JSON.stringify({ name: `mine, ${name}` }));
    await says(page, "1 pending");
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 300))); // the journal has it
    await page.close();
    await world.server.resume();
    const bob = await world.as("bob", space.did);
    await bob.transact((tx) => tx.set("urn:user:1", { name: `theirs, ${name}` }));
    page = await open("/entity?id=urn:user:1");
    await says(page, "1 rejected");
    await page.click(".corner > .button");
    await says(page, "was first at");
  };
  await conflict("first");
  assert.ok((await text(page!, ".rejected")).includes("mine, first"));
  await click(page!, ".rejected button", "Drop");
  await page!.waitForFunction(() => document.querySelector(".corner") === null);
  await page!.close();
  await conflict("second");
  await click(page!, ".rejected button", "Edit");
  await page!.waitForFunction(() => (document.querySelector("textarea") as HTMLTextAreaElement | null)?.value.includes("mine, second"));
  await edit(JSON.stringify({ name: "agreed" }));
  await says(page!, "agreed");
  await page!.waitForFunction(() => document.querySelector(".editor") === null);
  assert.deepEqual(await space.get("urn:user:1"), { name: "agreed" });
  await page!.close();
  await conflict("third");
  await click(page!, ".rejected button", "Retry on top");
  await page!.waitForFunction(() => document.querySelector(".corner") === null, { timeout: 20_000 });
  assert.deepEqual(await space.get("urn:user:1"), { name: "mine, third" });
  await page!.close();
});

rule("CONSOLE-8").test("what somebody else wrote meanwhile is not overwritten by an edit that did not see it", async () => {
  const page = await open("/entity?id=urn:user:2&tab=edit");
  await page.waitForSelector(".editor .primary:not(:disabled)");
  const ada = await world.as("ada", space.did);
  await ada.transact((tx) => tx.set("urn:user:2", { name: "theirs" }));
  await page.$eval("textarea[name=value]", (area) => {
    (area as HTMLTextAreaElement).value = '{"name": "mine"}';
    area.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await click(page, ".editor button", "Save");
  await says(page, "Somebody changed it while you were writing");
  assert.deepEqual(await space.get("urn:user:2"), { name: "theirs" });
  await click(page, ".editor button", "Save");
  await says(page, "last written at");
  await page.waitForFunction(() => document.querySelector(".json")?.textContent?.includes("mine"));
  assert.deepEqual(await space.get("urn:user:2"), { name: "mine" });
  await page.close();
});

rule("CONSOLE-8").test("erased and compacted moments say so, with a way out", async () => {
  const ada = await world.as("ada", space.did);
  const first = await ada.transaction((tx) => tx.set("urn:secret:1", { password: "hunter2" }));
  await first.confirmed();
  await ada.transact((tx) => tx.set("urn:secret:1", { password: null }));
  const owner = await world.as("owner", space.did);
  const id = (): string => btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(16))));
  await owner.ask("erase", { operation: id(), nonce: id(), entity: "urn:secret:1", versions: [first.version!] } as never);
  const page = await open(`/entity?id=urn:secret:1&at=${first.version}`);
  await says(page, "Erased on purpose");
  await click(page, "button", "Its history");
  await says(page, "erased or compacted");
  await owner.ask("compact", { operation: id(), nonce: id(), floor: 20 } as never);
  await page.goto(`${world.origin}${base}/entities?at=10`);
  await says(page, "Compacted; the oldest is @");
  await click(page, "button", "Go to @");
  await says(page, "You are looking at version");
  await page.close();
});

rule("CONSOLE-7").test("back and forward, and a revert with its preview", async () => {
  const page = await open("/commits?prefix=urn%3Atodo%3A1");
  await says(page, "rename on main");
  await click(page, ".fact-line", "rename on main");
  await says(page, "Take it back");
  await click(page, "button", "Preview");
  await says(page, "Dry run");
  await page.type(".revert input", "it was better before");
  await click(page, ".revert button", "Revert");
  await says(page, "it was better before");
  await page.goBack();
  await says(page, "rename on main");
  await page.goForward();
  await says(page, "it was better before");
  await press(page, "g");
  await press(page, "e");
  await says(page, "All entities");
  await page.close();
  assert.deepEqual(world.complaints, []);
});
