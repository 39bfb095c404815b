// The web console in five minutes, as a user meets it: travel, ask who, merge, follow a link, hostile content.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import type { Space } from "@stemmadb/client";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { ConsoleWorld, fillDemo } from "./console_support.ts";
import { click, press, says, shownRows, text } from "./console_steps.ts";

let world: ConsoleWorld;
let space: Space;
let base: string;
before(async () => {
  world = await ConsoleWorld.open();
  space = await world.space("demo");
  await fillDemo(world, space, 40);
  await world.letIn(space, "write");
  base = `/console/${space.did}`;
});
after(async () => {
  await world?.close();
  assert.deepEqual(world?.complaints, []);
});

async function drag(page: Page, from: number, to: number, o: { shift?: boolean } = {}): Promise<void> {
  const box = (await (await page.waitForSelector(".track"))!.boundingBox())!;
  const x = (place: number): number => box.x + 1 + place * (box.width - 2);
  if (o.shift) await page.keyboard.down("Shift");
  await page.mouse.move(x(from), box.y + 30);
  await page.mouse.down();
  for (let at = 1; at <= 12; at += 1) await page.mouse.move(x(from + ((to - from) * at) / 12), box.y + 30);
  await page.mouse.up();
  if (o.shift) await page.keyboard.up("Shift");
}

rule("CONSOLE-7").test("(quick) drag the timeline: the table is of that moment; a cell tells who wrote it, when and why", async () => {
  const page = await world.tab(`${base}/entities?prefix=urn%3Atodo%3A`);
  await says(page, "write the whole spec");
  await drag(page, 1, 0.12);
  await says(page, "Nothing can be changed here");
  const at = Number(new URL(page.url()).searchParams.get("at"));
  assert.ok(at > 3 && at < 15, page.url());
  await page.waitForFunction((most) => document.querySelectorAll("[data-row]").length <= most, {}, at);
  const then = await space.at({ version: at }).list("urn:todo:*");
  assert.deepEqual((await shownRows(page)).map((row) => row.id), [...then.keys()].sort());
  await page.goBack();
  await says(page, "write the whole spec");
  assert.equal(new URL(page.url()).searchParams.get("at"), null);
  await click(page, ".cell", "write the whole spec");
  await says(page, "rename on main");
  assert.match(await text(page, ".inspector"), /before\d?"write the spec"/);
  await click(page, ".inspector button", "Go to this moment");
  await says(page, "You are looking at version");
  assert.ok((await text(page, ".row.touched")).includes("urn:todo:1"));
  await press(page, "[");
  await page.waitForFunction((url) => location.href !== url, {}, page.url());
  await drag(page, 0.2, 0.9, { shift: true });
  await says(page, "changed");
  assert.match(page.url(), /\/diff\?from=main%40\d+&to=main%40\d+/);
  await page.close();
});

rule("MERGE-3").test("(quick) a merge with three conflicts, settled three ways", async () => {
  const page = await world.tab(`${base}/branches`);
  await says(page, "polish is ready");
  await page.click(".cards li:nth-child(2) .primary");
  await says(page, "3 conflicts");
  const choose = async (id: string, side: number): Promise<void> => {
    const fields = await page.$$("fieldset.conflict");
    for (const one of fields) if ((await one.evaluate((element) => element.querySelector("legend")!.textContent!)).startsWith(`${id} `)) await (await one.$$("input"))[side]!.click();
  };
  await choose("urn:todo:1", 1); // draft
  await choose("urn:todo:3", 2); // main
  assert.equal(await page.$eval(".merge-form .primary", (button) => (button as HTMLButtonElement).disabled), true);
  await choose("urn:todo:5", 0); // what was before both
  const before = (await (await space.branch("draft")).at({ version: (await space.branches()).find((one) => one.name === "draft")!.fork }).get("urn:todo:5", "/by"))!;
  await page.type(".merge-form input", "settled by hand");
  await page.click(".merge-form .primary");
  await says(page, "Merged at @");
  assert.equal(await space.get("urn:todo:1", "/title"), "write a better spec");
  assert.equal(await space.get("urn:todo:3", "/votes"), 12);
  assert.equal(await space.get("urn:todo:5", "/by"), before);
  assert.equal(await space.get("urn:todo:41", "/title"), "only on draft");
  await click(page, "a", "The commit");
  await says(page, "settled by hand");
  await page.close();
});

rule("CONSOLE-5").test("(quick) hostile content is text: nothing runs, nothing is hidden, nothing leads away", async () => {
  const evil = await world.space("evil");
  await world.letIn(evil, "read");
  const html = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";
  const values = { html, bidi: "abc\u202egnp.exe", link: "javascript:document.title='owned'", long: "x".repeat(300_000), zero: "a\u200bb", deep: JSON.parse(`${"[".repeat(60)}1${"]".repeat(60)}`) };
  const rest = JSON.parse('{"__proto__": {"polluted": true}, "constructor": "c", "toString": 1, "9007199254740993": 9007199254740993}') as object;
  await evil.transact((tx) => {
    tx.set("urn:evil:%3Cb%3E/../history?a=1&b=2#c", { ...values } as never);
    tx.set("urn:evil:proto", rest as never);
  }, { note: { message: `${html}\u202e` } });
  await evil.branch("..", { create: true }).catch(() => undefined);
  const start = `/console/${evil.did}`;
  const id = encodeURIComponent("urn:evil:%3Cb%3E/../history?a=1&b=2#c");
  const page = await world.tab(`${start}/entities`);
  await says(page, "urn:evil:proto");
  assert.ok((await text(page, "#app")).includes("⟨U+202E⟩"));
  for (const path of [`/entity?id=${id}`, `/entity?id=${id}&tab=history`, `/entity?id=${id}&tab=blame`, `/entity?id=${id}&tab=diff`, "/commits?c=3", "/diff?from=main@1&to=main@3", "/live", "/branches"]) {
    await page.goto(world.origin + start + path);
    await page.waitForFunction(() => document.querySelector(".json, .difference, .row, .picture") !== null, { timeout: 8_000 }).catch(async () => assert.fail(`${path}: ${await text(page, "#app")}`));
    await new Promise((resolve) => setTimeout(resolve, 150));
    assert.equal(await page.$$eval("img, .screen script, b", (all) => all.length), 0, path);
    assert.ok(!(await text(page, "#app")).includes("\u202e"), path);
    const away = await page.$$eval("a[href]", (all) => all.map((one) => (one as HTMLAnchorElement).href).filter((href) => !href.startsWith(`${location.origin}/console`)));
    assert.deepEqual(away.filter((href) => !href.endsWith("#screen")), [], path);
    assert.notEqual(await page.title(), "owned");
  }
  await page.goto(`${world.origin}${start}/entity?id=urn:evil:proto`);
  await says(page, '"__proto__"');
  assert.ok((await text(page, ".json")).includes("9007199254740993"));
  const blocked = await page.evaluate(async () => {
    const fetched = await fetch("http://127.0.0.1:9").then(() => "sent", () => "blocked");
    const breach = new Promise((resolve) => document.addEventListener("securitypolicyviolation", (event) => resolve(event.blockedURI), { once: true }));
    try {
      new WebSocket("wss://example.org");
    } catch {
      return [fetched, "thrown"];
    }
    return [fetched, await breach];
  });
  assert.equal(blocked[0], "blocked");
  await page.close();
  world.complaints.length = 0; // the two breaches were wanted; Firefox tells of them late
});

rule("CONSOLE-1", "CONSOLE-8").test("(quick) the tour by keyboard; a copied link opens the same view", async () => {
  const page = await world.tab(`${base}/entities?prefix=urn%3Atodo%3A`);
  await says(page, "urn:todo:10");
  await press(page, "j");
  await press(page, "j");
  await press(page, "Enter");
  await says(page, '"title"');
  assert.ok(page.url().includes("urn%3Atodo%3A10"));
  await press(page, "g");
  await press(page, "c");
  await says(page, "Touching prefix", "placeholder");
  await press(page, "/");
  await page.keyboard.type("urn:todo:7");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.search.includes("todo%3A7"));
  await says(page, '"title"');
  await press(page, "[");
  await page.waitForFunction(() => location.search.includes("at="));
  await press(page, "[");
  await says(page, "You are looking at version");
  await press(page, "?");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.press("Escape");
  const shown = await text(page, "#entity-panel");
  await page.evaluate(() => Object.defineProperty(navigator.clipboard, "writeText", { configurable: true, value: (copied: string) => Promise.resolve(void (document.documentElement.dataset["copied"] = copied)) }));
  await page.click(".copy-link");
  await says(page, "Copied");
  const link = (await page.$eval("html", (html) => html.dataset["copied"]))!;
  assert.match(link, /at=\d+\.[a-z2-7]{12}/);
  await page.evaluate(() => Object.defineProperty(navigator.clipboard, "writeText", { value: () => Promise.reject(new DOMException("no", "NotAllowedError")) }));
  await says(page, "Copy link");
  const asked = new Promise<string>((resolve) => page.once("dialog", (dialog) => void dialog.dismiss().then(() => resolve(dialog.defaultValue()))));
  await page.click(".copy-link");
  assert.equal(await asked, link, "what may not be copied is shown to be copied by hand");
  await page.goto(link);
  await says(page, '"title"');
  assert.equal(await text(page, "#entity-panel"), shown);
  await page.goto(link.replace(/at=(\d+)\.[a-z2-7]{12}/, "at=$1.aaaaaaaaaaaa"));
  await says(page, "This link is from another history of this space (the server was restored)");
  await page.close();
});
