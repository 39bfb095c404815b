// The tour of docs/guides/web-console.md, step by step. With STEMMADB_PICTURES=DIRECTORY each step leaves its picture there.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import type { Space } from "@stemmadb/client";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { ConsoleWorld, fillDemo } from "./console_support.ts";
import { click, press, says } from "./console_steps.ts";

let world: ConsoleWorld;
let space: Space;
before(async () => {
  world = await ConsoleWorld.open();
  space = await world.space("demo");
  await fillDemo(world, space, 120);
  await world.letIn(space, "write");
});
after(async () => world?.close());

/** A tab that knows the name of the space, as after pairing. */
async function paired(path: string): Promise<Page> {
  const page = await world.tab("/console", { width: 1280, height: 760 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }, { name: "prefers-reduced-motion", value: "reduce" }]);
  await page.evaluate((did) => sessionStorage.setItem(`stemmadb.delegation ${did}`, JSON.stringify({ did, name: "demo", text: "" })), space.did);
  await page.goto(`${world.origin}/console/${space.did}${path}`);
  return page;
}

rule("CONSOLE-7", "CONSOLE-8").test("five minutes with the guide: travel, who and why, merge, the same view by its address", async () => {
  const page = await paired("/entities?prefix=urn%3Atodo%3A");
  await says(page, "urn:todo:10");
  await world.shot(page, "entities");
  const box = (await (await page.waitForSelector(".track"))!.boundingBox())!;
  await page.mouse.move(box.x + box.width - 2, box.y + 30);
  await page.mouse.down();
  for (let at = 1; at <= 20; at += 1) await page.mouse.move(box.x + box.width * (1 - at / 45), box.y + 30);
  await says(page, "You are looking at version");
  await world.shot(page, "timeline");
  await page.mouse.up();
  await press(page, "End");
  await page.waitForFunction(() => !location.search.includes("at="));
  await click(page, ".cell", "write the whole spec");
  await says(page, "wrote this");
  await says(page, "rename on main");
  await world.shot(page, "cell");
  await page.goto(`${world.origin}/console/${space.did}/entity?id=urn%3Atodo%3A1&tab=blame`);
  await says(page, "rename on main");
  await world.shot(page, "blame");
  await click(page, "button.gutter", "rename on main");
  await says(page, "Take it back");
  await click(page, "button", "Preview");
  await says(page, "Dry run");
  await world.shot(page, "commit");
  await page.goto(`${world.origin}/console/${space.did}/diff?from=main%4060&to=main%40120&id=urn%3Atodo%3A1`);
  await page.waitForSelector(".pair.changed");
  await world.shot(page, "diff");
  await press(page, "g");
  await press(page, "b");
  await says(page, "polish is ready");
  await world.shot(page, "branches");
  await page.click(".cards li:nth-child(2) .primary");
  await says(page, "3 conflicts");
  for (const [at, side] of [[1, 2], [2, 3], [3, 1]]) await page.click(`fieldset.conflict:nth-of-type(${at}) label:nth-of-type(${side}) input`);
  await says(page, "All conflicts are settled");
  await page.type(".merge-form input", "the words of the draft, the votes of main");
  await world.shot(page, "merge");
  await page.click(".merge-form .primary");
  await says(page, "Merged at @");
  const live = await paired("/live");
  await says(live, "urn:todo:41");
  await live.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await world.shot(live, "live");
  const dark = await paired("/entities?prefix=urn%3Atodo%3A&at=100&sel=urn%3Atodo%3A12&path=%2Ftitle");
  await dark.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await says(dark, "wrote this");
  await world.shot(dark, "dark");
  assert.deepEqual(world.complaints, []);
});
