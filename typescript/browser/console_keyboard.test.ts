// The console without a mouse: the tour of docs/guides/web-console.md by keys alone, and every control within reach of Tab.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import type { Space } from "@stemmadb/client";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { ConsoleWorld, fillDemo, VIEWS } from "./console_support.ts";
import { press, says, text } from "./console_steps.ts";

/** More than any screen of the demo has controls. */
const TABS_MAX = 600;
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
  assert.deepEqual(world?.complaints, []);
});

/** Tab, until a control of this kind has the focus; `wanted` is in its text or its label. */
async function tabTo(page: Page, selector: string, wanted = ""): Promise<void> {
  for (let tries = 0; tries < TABS_MAX; tries += 1) {
    await page.keyboard.press("Tab");
    const isThere = await page.evaluate((selector, wanted) => {
      const at = document.activeElement!;
      return at.matches(selector) && `${at.textContent} ${at.getAttribute("aria-label") ?? ""}`.includes(wanted);
    }, selector, wanted);
    if (isThere) return;
  }
  assert.fail(`Tab leads to no ${selector} with "${wanted}"`);
}

async function enter(page: Page, selector: string, wanted = ""): Promise<void> {
  await tabTo(page, selector, wanted);
  await page.keyboard.press("Enter");
}

const at = (page: Page): string | null => new URL(page.url()).searchParams.get("at");

/** The controls of a page that a mouse could use, each marked with a number. */
function controls(page: Page): Promise<string[]> {
  return page.evaluate(() => [...document.querySelectorAll<HTMLElement>("a[href], button, input, select, textarea, [tabindex='0']")].filter((one) => {
    const { width, height } = one.getBoundingClientRect();
    const isOfGroup = one instanceof HTMLInputElement && one.type === "radio";
    return width > 0 && height > 0 && one.tabIndex >= 0 && !one.matches(":disabled") && !isOfGroup && getComputedStyle(one).visibility === "visible";
  }).map((one, at) => ((one.dataset["control"] = String(at)), `${one.tagName} ${one.getAttribute("aria-label") ?? one.textContent!.slice(0, 40)}`)));
}

rule("CONSOLE-8").test("Tab reaches each control of each screen, and each shows that it has the focus", async () => {
  const unreached: string[] = [];
  const unseen = new Set<string>();
  for (const [name, path, wanted] of VIEWS) {
    const page = await world.tab(base + path, { width: 1200, height: 420 });
    await says(page, wanted);
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 400)));
    const all = await controls(page);
    const reached = new Set<string>();
    for (let tries = 0; tries < TABS_MAX && reached.size < all.length; tries += 1) {
      await page.keyboard.press("Tab");
      const focus = await page.evaluate(() => {
        const one = document.activeElement as HTMLElement;
        const { outlineStyle, boxShadow } = getComputedStyle(one);
        return { control: one.dataset["control"], isSeen: outlineStyle !== "none" || boxShadow !== "none", html: one.outerHTML.slice(0, 100) };
      });
      if (focus.control !== undefined) reached.add(focus.control);
      if (focus.control !== undefined && !focus.isSeen) unseen.add(focus.html);
    }
    unreached.push(...all.filter((_, at) => !reached.has(String(at))).map((one) => `${name}: ${one}`));
    await page.close();
  }
  assert.deepEqual(unreached, []);
  assert.deepEqual([...unseen], []);
});

rule("CONSOLE-8", "CONSOLE-7").test("the whole tour by keys: travel, who and why, revert preview, merge, edit, live, a link", async () => {
  const page = await world.tab(`${base}/entities`);
  await says(page, "All entities");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement!.textContent), "Skip to the content");
  await enter(page, ".tree-link", "todo:");
  await says(page, "write the whole spec");

  await tabTo(page, "[role=slider]");
  await page.keyboard.press("ArrowLeft");
  await says(page, "Nothing can be changed here");
  const once = Number(at(page));
  await page.keyboard.press("ArrowLeft");
  await page.waitForFunction((once) => Number(new URLSearchParams(location.search).get("at")) < once, {}, once);
  await page.keyboard.press("Home");
  await page.waitForFunction(() => location.search.includes("at=1"));
  await says(page, "Nothing was here at this moment");
  await page.keyboard.press("End");
  await says(page, "write the whole spec");
  assert.equal(at(page), null);

  await page.keyboard.press("j");
  await enter(page, ".cell", "write the whole spec");
  await says(page, "wrote this");
  await says(page, "rename on main");
  await enter(page, ".wrote a", "The commit");
  await says(page, "Take it back");
  await enter(page, ".revert button", "Preview");
  await says(page, "Dry run");
  await enter(page, ".inspector button", "Close");
  await page.waitForFunction(() => document.querySelector(".inspector") === null);

  await press(page, "g");
  await press(page, "b");
  await says(page, "polish is ready");
  await enter(page, '.cards a[href*="source=draft"].primary', "Merge");
  await says(page, "3 conflicts");
  for (const keys of [[" "], [" ", "ArrowDown"], [" ", "ArrowDown", "ArrowDown"]] as const) {
    await tabTo(page, ".conflict.open input");
    for (const key of keys) await page.keyboard.press(key);
  }
  await says(page, "All conflicts are settled");
  await tabTo(page, ".merge-form input");
  await page.keyboard.type("by keys alone");
  await page.keyboard.press("Enter");
  await says(page, "Merged at @");
  assert.equal((await space.get("urn:todo:1", "/title")), "write the spec", "what was before both");
  assert.equal((await space.get("urn:todo:3", "/votes")), 30, "the draft's");
  assert.equal((await space.get("urn:todo:5", "/by")), "urn:user:1", "main's");

  await press(page, "g");
  await press(page, "d");
  await says(page, "changed");
  const sides = new URL(page.url()).searchParams.get("from");
  await enter(page, "button", "Swap");
  await page.waitForFunction((sides) => new URLSearchParams(location.search).get("from") !== sides, {}, sides);
  await press(page, "g");
  await press(page, "l");
  await says(page, "by keys alone");
  await enter(page, ".live button", "Pause");
  await says(page, "Go on");

  await press(page, "/");
  await page.keyboard.type("urn:todo:7\n");
  await says(page, '"title"');
  await tabTo(page, "[role=tab]", "Value");
  for (const tab of ["History", "Blame", "Diff", "Value"]) {
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction((tab) => document.activeElement!.textContent === tab && document.activeElement!.getAttribute("aria-selected") === "true", {}, tab);
  }
  await enter(page, "button", "Edit");
  await tabTo(page, "textarea[name=value]");
  await page.waitForSelector(".editor .primary:not(:disabled)");
  await page.keyboard.down("Control");
  await page.keyboard.press("a");
  await page.keyboard.up("Control");
  await page.keyboard.type('{"title": "typed by hand"}');
  await enter(page, ".editor button", "Save");
  await page.waitForFunction(() => document.querySelector(".editor") === null && document.querySelector(".json")?.textContent?.includes("typed by hand"));
  assert.deepEqual(await space.get("urn:todo:7"), { title: "typed by hand" });

  await page.evaluate(() => Object.defineProperty(navigator.clipboard, "writeText", { value: (copied: string) => Promise.resolve(void (document.documentElement.dataset["copied"] = copied)) }));
  await enter(page, "button", "Copy link");
  await says(page, "Copied");
  assert.match((await page.$eval("html", (html) => html.dataset["copied"]))!, /at=\d+\.[a-z2-7]{12}&id=urn%3Atodo%3A7$/);
  await press(page, "?");
  await page.waitForSelector("dialog[open]");
  assert.equal(await page.evaluate(() => document.activeElement!.textContent), "Close");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("dialog") === null);
  await page.close();
});

rule("CONSOLE-8").test("the corner of rejected commits by keys", async () => {
  const page = await world.tab(`${base}/entity?id=urn:user:1&tab=edit`);
  await page.waitForSelector(".editor .primary:not(:disabled)");
  await world.server.stop();
  await says(page, "Offline");
  await tabTo(page, "textarea[name=value]");
  await page.keyboard.down("Control");
  await page.keyboard.press("a");
  await page.keyboard.up("Control");
  await page.keyboard.type('{"name": "mine", "n": 9007199254740993}');
  await enter(page, ".editor button", "Save");
  await enter(page, ".corner button", "1 pending");
  await page.waitForSelector("#corner-list");
  assert.match(await text(page, "#corner-list"), /Pending.*urn:user:1/s);
  await page.close();
  await world.server.resume();
  await (await world.as("bob", space.did)).transact((tx) => tx.set("urn:user:1", { name: "theirs" }));
  const again = await world.tab(`${base}/entity?id=urn:user:1`);
  await says(again, "1 rejected");
  await enter(again, ".corner button", "1 rejected");
  await enter(again, ".rejected button", "Edit");
  await again.waitForFunction(() => document.querySelector(".corner") === null);
  assert.match(await again.$eval("textarea", (area) => area.value), /9007199254740993/, "no digit was lost on the way to the editor");
  await again.close();
});
