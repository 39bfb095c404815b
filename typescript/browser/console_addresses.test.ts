// Every screen and state by its address, in each browser: reached within the page, opened fresh, and by back and forward it is the
// same picture (CONSOLE-1). A link from before a restore says so.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import type { Space } from "@stemmadb/client";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { markOf } from "../console/src/address.ts";
import { ConsoleWorld, fillDemo, STEMMADB, VIEWS } from "./console_support.ts";
import { says } from "./console_steps.ts";

const directory = mkdtempSync(join(tmpdir(), "stemmadb-backup-"));
let world: ConsoleWorld;
let space: Space;
let base: string;

before(async () => {
  world = await ConsoleWorld.open();
  space = await world.space("demo");
  await fillDemo(world, space, 50);
  await world.letIn(space, "write");
  base = `/console/${space.did}`;
});
after(async () => {
  await world?.close();
  rmSync(directory, { recursive: true, force: true });
});

/** What the screen says when it is complete, without how long ago things were. */
async function picture(page: Page): Promise<string> {
  const read = (): Promise<string> => page.$eval("#screen", (screen) => (screen as HTMLElement).innerText.replaceAll(/\b(now|\d+(y|mo|d|h|m) ago)\b/g, "…"));
  let before = "";
  for (let same = 0; same < 4; ) {
    await new Promise((resolve) => setTimeout(resolve, 150));
    const now = (await page.$("#screen .busy, #screen .loading")) === null ? await read() : "";
    same = now !== "" && now === before ? same + 1 : 0;
    before = now;
  }
  return before;
}

rule("CONSOLE-1", "CONSOLE-8").test("each address is the same picture within the page, opened fresh, and by back and forward", async () => {
  const page = await world.tab(`${base}/entities`);
  await says(page, "All entities");
  const seen: string[] = [];
  for (const [name, path, wanted] of VIEWS) {
    await page.evaluate((path) => history.pushState(null, "", path), base + path);
    await says(page, wanted);
    seen.push(await picture(page));
    const fresh = await world.tab(base + path);
    await says(fresh, wanted);
    assert.equal(await picture(fresh), seen.at(-1), name);
    await fresh.close();
  }
  for (let at = VIEWS.length - 2; at >= 0; at -= 1) {
    await page.goBack();
    await says(page, VIEWS[at]![2]);
    assert.equal(await picture(page), seen[at], `back to ${VIEWS[at]![0]}`);
  }
  await page.goForward();
  await says(page, VIEWS[1]![2]);
  assert.equal(await picture(page), seen[1]);
  await page.close();
  assert.deepEqual(world.complaints, []);
});

rule("CONSOLE-1").test("a link from before a restore says that it is of another history", async () => {
  const offline = (...given: string[]): void => {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("STEMMADB_")));
    const ran = spawnSync(STEMMADB, given, { env, encoding: "utf8" });
    assert.equal(ran.status, 0, ran.stderr);
  };
  const kept = join(directory, "backup");
  offline("backup", "--data", world.server.data, kept);
  const lost = await space.transaction((tx) => tx.set("urn:todo:1", { title: "lost in the restore" }));
  await lost.confirmed();
  const link = async (): Promise<string> => {
    const answer = await space.ask("log", { version: lost.version!, limit: 1 } as never) as unknown as { entries: { hash: string }[] };
    return `${base}/entity?id=urn%3Atodo%3A1&at=${lost.version}.${markOf(answer.entries[0]!.hash)}`;
  };
  const before = await link();
  const page = await world.tab(before);
  await says(page, "lost in the restore");
  await world.server.stop();
  rmSync(world.server.data, { recursive: true });
  offline("restore", "--data", world.server.data, kept);
  await world.server.resume();
  const fresh = await world.tab(before);
  await says(fresh, "This link is from another history of this space (the server was restored)");
  const again = await world.fresh("bob", space.did);
  const other = await again.transaction((tx) => tx.set("urn:todo:2", { title: "written after the restore" }));
  await other.confirmed();
  assert.equal(other.version, lost.version);
  await fresh.reload();
  await says(fresh, "This link is from another history of this space (the server was restored)");
  await fresh.goto(`${world.origin}${base}/entity?id=urn%3Atodo%3A2`);
  await says(fresh, "written after the restore");
  await fresh.close();
  await page.close();
});
