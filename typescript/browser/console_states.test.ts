// The states of the screens beside the usual one: empty, loading, error, offline, no rights, erased, compacted, conflict, rejected.
// Each is shown without a violation of WCAG, light and dark (CONSOLE-8).
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach } from "node:test";
import type { Space } from "@stemmadb/client";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { freePort } from "../client/test/support/server.ts";
import { cli, ConsoleWorld, fillDemo } from "./console_support.ts";
import { click, press, says, violations } from "./console_steps.ts";

const config = mkdtempSync(join(tmpdir(), "stemmadb-config-"));
let world: ConsoleWorld;
let space: Space;
let base: string;
let found: string[] = [];

before(async () => {
  world = await ConsoleWorld.open();
  space = await world.space("demo");
  await fillDemo(world, space, 40);
  await world.letIn(space, "write");
  base = `/console/${space.did}`;
});
beforeEach(() => void (found = []));
after(async () => {
  await world?.close();
  rmSync(config, { recursive: true, force: true });
  assert.deepEqual(world?.complaints, []);
});

/** Looks at what a page shows now in both colours. */
async function check(page: Page, name: string): Promise<void> {
  await page.bringToFront();
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }, { name: "prefers-reduced-motion", value: "reduce" }]);
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    found.push(...(await violations(page)).map((one) => `${name}, ${theme}: ${one}`));
    await world.shot(page, `state-${name.replaceAll(" ", "-")}-${theme}`);
  }
}

/** Opens an address, waits for its text, looks. The page is closed if nobody wants it. */
async function state(name: string, path: string, wanted: string): Promise<Page> {
  const page = await world.tab(path);
  await says(page, wanted);
  await check(page, name);
  return page;
}

const closed = async (...given: Parameters<typeof state>): Promise<void> => (await state(...given)).close();
const id = (): string => btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(16))));

rule("CONSOLE-8").test("empty, narrow, without rights, unknown: nothing to see, and it says why", async () => {
  const empty = await world.space("empty");
  await world.letIn(empty, "read");
  const there = `/console/${empty.did}`;
  await closed("no entities", `${there}/entities?prefix=urn%3A`, "Nothing is here yet");
  await closed("before anything", `${there}/entities?at=0`, "Nothing was here at this moment");
  await closed("one branch", `${there}/merge`, "There is only one branch");
  await closed("no commit matches", `${base}/commits?prefix=urn%3Anothing%3A`, "No commits here");
  await closed("no such commit", `${base}/commits?c=99999`, "This version is not there yet");
  await closed("nothing differs", `${base}/diff?from=main@30&to=main@30`, "Nothing differs");
  await closed("nothing flows", `${base}/live?prefix=urn%3Anothing%3A`, "Waiting for the next commit");
  await closed("which entity", `${base}/entity`, "Which entity?");
  const shut = await world.space("shut");
  const unknown = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
  for (const [name, did] of [["no rights", shut.did], ["no such space", unknown]] as const) await closed(name, `/console/${did}/entities`, "This server has no such space, or this page may not read it.");
  await closed("no did", "/console/did:key:nonsense/entities", "This address names no space");
  const { space: theirs } = cli(world, config, "space", "create", "narrow") as { space: string };
  cli(world, config, "set", "urn:todo:1", '{"title": "seen"}', "--space", "narrow");
  cli(world, config, "set", "urn:user:1", '{"title": "hidden"}', "--space", "narrow");
  const { delegation } = cli(world, config, "acl", "delegate", await world.browserDid(), "read", "--for", "1h", "--prefix", "urn:todo:", "--space", "narrow") as { delegation: string };
  await world.keep(theirs, delegation);
  await closed("narrow", `/console/${theirs}/entities`, "You see urn:todo: only.");
  await closed("not for this page", `/console/${theirs}/entity?id=urn:user:1`, "or you may not read it");
  assert.deepEqual(found, []);
});

rule("CONSOLE-8", "CONSOLE-1").test("moments that are not there any more, or of another history", async () => {
  const old = await world.space("old");
  await world.letIn(old, "read");
  const there = `/console/${old.did}`;
  for (let n = 0; n < 10; n += 1) await old.transact((tx) => tx.set("urn:x:1", { n }));
  const secret = await old.transaction((tx) => tx.set("urn:x:2", { password: "hunter2" }));
  await secret.confirmed();
  await old.transact((tx) => tx.set("urn:x:2", { password: null }));
  await old.ask("erase", { operation: id(), nonce: id(), entity: "urn:x:2", versions: [secret.version!] } as never);
  await old.ask("compact", { operation: id(), nonce: id(), floor: 8 } as never);
  await closed("erased", `${there}/entity?id=urn:x:2&at=${secret.version}`, "Erased on purpose");
  await closed("erased row", `${there}/entities?prefix=urn%3Ax%3A&at=${secret.version}`, "erased on purpose");
  await closed("erased in the history", `${there}/entity?id=urn:x:2&tab=history`, "erased or compacted");
  await closed("compacted", `${there}/entities?at=3`, "Compacted; the oldest is @");
  await closed("compacted entity", `${there}/entity?id=urn:x:1&at=3`, "Compacted; the oldest is @");
  await closed("compacted blame", `${there}/entity?id=urn:x:1&at=9&tab=blame`, "Beside each line");
  const diff = await state("compacted diff", `${there}/diff?from=main@3&to=main@9`, "Compacted; the oldest is @");
  await click(diff, "button", "Go to @");
  await says(diff, "1 changed");
  await diff.close();
  await closed("diff of what is to come", `${there}/diff?from=main@9&to=main@99999`, "This version is not there yet");
  await closed("another history", `${there}/entities?at=9.aaaaaaaaaaaa`, "This link is from another history of this space (the server was restored)");
  await closed("not yet", `${there}/entity?id=urn:x:1&at=99999`, "is not there yet");
  await closed("no such tag", `${there}/commits?at=tag:nope`, "There is no such tag");
  assert.deepEqual(found, []);
});

rule("CONSOLE-8", "MERGE-3").test("in the middle of something: conflicts, previews, editors, help, a pause", async () => {
  const merge = await state("conflicts open", `${base}/merge?source=draft&target=main`, "3 conflicts");
  for (const at of [1, 2, 3]) await merge.click(`fieldset.conflict:nth-of-type(${at}) label:nth-of-type(${at}) input`);
  await says(merge, "All conflicts are settled");
  await check(merge, "conflicts settled");
  await merge.click(".merge-form .primary");
  await says(merge, "Merged at @");
  await check(merge, "merged");
  await merge.close();
  await closed("into itself", `${base}/merge?source=draft&target=draft`, "cannot be merged into itself");
  const revert = await state("commit", `${base}/commits?c=30`, "Take it back");
  await click(revert, "button", "Preview");
  await says(revert, "Dry run");
  await check(revert, "revert preview");
  await revert.close();
  const edit = await world.tab(`${base}/entity?id=urn:user:2&tab=edit`);
  await edit.waitForSelector(".editor .primary:not(:disabled)");
  await edit.type("textarea[name=value]", "{");
  await click(edit, ".editor button", "Save");
  await says(edit, "This is not JSON");
  await check(edit, "not JSON");
  await edit.close();
  const help = await world.tab(`${base}/entities`);
  await says(help, "urn:todo:10");
  await press(help, "?");
  await help.waitForSelector("dialog[open]");
  await check(help, "help");
  await help.close();
  const live = await world.tab(`${base}/live`);
  await says(live, "urn:todo:4");
  await click(live, "button", "Pause");
  await check(live, "live paused");
  await live.close();
  assert.deepEqual(found, []);
});

rule("CONSOLE-2", "CONSOLE-8").test("each outcome on the page of pairing", async () => {
  await closed("pair used", "/console/pair", "This page has been used");
  const page = await world.tab(`/console/pair#${await freePort()}.${"x".repeat(22)}.write.demo`);
  await says(page, "Let this page read and write");
  await click(page, "button", "Allow");
  await says(page, "This did not work");
  await check(page, "pair failed");
  await page.goto("about:blank");
  await page.goto(`${world.origin}/console/pair#1.${"x".repeat(22)}.read.demo`);
  await click(page, "button", "No");
  await says(page, "Nothing was sent");
  await check(page, "pair refused");
  await page.close();
  assert.deepEqual(found, []);
});

rule("CONSOLE-8").test("loading, offline, pending and rejected; a server that is frozen or killed is no reason to forget what was there", async () => {
  const page = await world.tab(`${base}/entities`);
  await says(page, "urn:todo:10");
  const thaw = world.server.freeze();
  try {
    await page.evaluate((path) => history.pushState(null, "", path), `${base}/commits`);
    await page.waitForSelector(".screen .loading");
    await check(page, "loading");
  } finally {
    thaw();
  }
  await says(page, "rename on main");
  await page.goto(`${world.origin}${base}/entity?id=urn:user:1&tab=edit`);
  await page.waitForSelector(".editor .primary:not(:disabled)");
  await world.server.stop();
  await says(page, "Offline");
  await page.$eval("textarea[name=value]", (area) => {
    area.value = '{"name": "mine"}';
    area.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await click(page, ".editor button", "Save");
  await says(page, "1 pending");
  await page.click(".corner > .button");
  await page.waitForSelector("#corner-list");
  await check(page, "offline with pending commits");
  await page.close();
  await world.server.resume();
  await (await world.as("bob", space.did)).transact((tx) => tx.set("urn:user:1", { name: "theirs" }));
  const again = await world.tab(`${base}/entity?id=urn:user:1`);
  await says(again, "1 rejected");
  await again.click(".corner > .button");
  await says(again, "was first at");
  await check(again, "rejected");
  await again.close();
  assert.deepEqual(found, []);
});
