// Rights that end while one looks: a delegation that is over, one that is revoked, a name that leaves the access list.
// Nothing is written or asked meanwhile: the server ends the page's watch by itself.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { cli, ConsoleWorld } from "./console_support.ts";
import { says, text } from "./console_steps.ts";

const config = mkdtempSync(join(tmpdir(), "stemmadb-config-"));
let world: ConsoleWorld;
let did: string;
let me: string;

before(async () => {
  world = await ConsoleWorld.open();
  ({ space: did } = cli(world, config, "space", "create", "watched") as { space: string });
  for (const n of [1, 2]) cli(world, config, "set", `urn:todo:${n}`, `{"title": "task ${n}"}`, "--space", "watched");
  me = await world.browserDid();
});
after(async () => {
  await world?.close();
  rmSync(config, { recursive: true, force: true });
});

const delegate = (how: string): string => (cli(world, config, "acl", "delegate", me, "read", "--for", how, "--space", "watched") as { delegation: string }).delegation;

const VIEWS = [["/entities", "urn:todo:2"], ["/entities?at=2", "Nothing can be changed here"], ["/entity?id=urn:todo:1", '"title"'], ["/branches", "Heads"], ["/live", "urn:todo:2"]] as const;

async function lookedAt(): Promise<Page[]> {
  const pages: Page[] = [];
  for (const [path, wanted] of VIEWS) {
    const page = await world.tab(`/console/${did}${path}`);
    await says(page, wanted);
    pages.push(page);
  }
  return pages;
}

async function areOut(pages: readonly Page[]): Promise<void> {
  for (const page of pages) {
    await page.waitForFunction(() => document.querySelector(".connect .why")?.textContent?.includes("This page may no longer read here"), { timeout: 60_000, polling: 50 });
    const shown = await text(page, "#app");
    assert.ok(shown.includes(me), "it says who it is");
    assert.ok(!shown.includes("task 1") && !shown.includes("urn:todo:"), "nothing that was read is left");
    await page.close();
  }
}

rule("CONSOLE-8", "ACL-4").test("a delegation ends while one looks, on every kind of screen", async () => {
  await world.keep(did, delegate("25s"));
  const pages = await lookedAt();
  await areOut(pages);
  const again = await world.tab(`/console/${did}/entities`);
  await again.waitForSelector(".connect .why");
  await again.close();
});

rule("CONSOLE-8", "ACL-4").test("a delegation is revoked while one looks", async () => {
  const delegation = delegate("1h");
  await world.keep(did, delegation);
  const pages = await lookedAt();
  cli(world, config, "acl", "revoke", delegation, "--space", "watched");
  await areOut(pages);
});

rule("CONSOLE-8", "ACL-2").test("a name leaves the access list while one looks, and is let in again", async () => {
  cli(world, config, "acl", "set", me, "read", "--space", "watched");
  await world.forget(did);
  const pages = await lookedAt();
  cli(world, config, "acl", "remove", me, "--space", "watched");
  await areOut(pages);
  cli(world, config, "acl", "set", me, "read", "--space", "watched");
  await Promise.all((await lookedAt()).map((page) => page.close()));
  assert.deepEqual(world.complaints, []);
});
