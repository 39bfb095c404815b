// What an author, a link or a page may send to harm whoever looks: names, notes, long and deep values, blobs, foreign spaces, frames.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import type { Json, Space } from "@stemmadb/client";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { cli, ConsoleWorld } from "./console_support.ts";
import { click, says, text } from "./console_steps.ts";

const HTML = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";
const RTL = "\u202e";
const config = mkdtempSync(join(tmpdir(), "stemmadb-config-"));
let world: ConsoleWorld;
let space: Space;
let base: string;

before(async () => {
  world = await ConsoleWorld.open();
  space = await world.space("evil");
  await world.letIn(space, "write");
  base = `/console/${space.did}`;
});
after(async () => {
  await world?.close();
  rmSync(config, { recursive: true, force: true });
});

/** Nothing ran, nothing leads away, no hidden character is drawn as it is. */
async function harmless(page: Page, where: string): Promise<void> {
  const seen = await page.evaluate((rtl) => ({
    title: document.title,
    made: [...document.querySelectorAll("img, iframe, object, embed, #app script, form[action]")].map((one) => one.outerHTML.slice(0, 80)),
    raw: [document.title, ...document.body.innerText.split("\n"), ...[...document.querySelectorAll("*")].flatMap((one) => ["title", "aria-label", "placeholder", "label"].map((name) => one.getAttribute(name) ?? "")),
      ...[...document.querySelectorAll("option")].map((one) => one.textContent)].filter((one) => one.includes(rtl)),
    away: [...document.querySelectorAll("a[href]")].map((one) => (one as HTMLAnchorElement).href).filter((href) => !href.startsWith(`${location.origin}/console`)),
    isWide: document.documentElement.scrollWidth > innerWidth,
  }), RTL);
  assert.deepEqual({ ...seen, title: seen.title === "owned" }, { title: false, made: [], raw: [], away: [], isWide: false }, where);
}

rule("CONSOLE-5").test("notes, keys and values of HTML and bidi controls are text on every screen, also in an editor and a list to choose from", async () => {
  const value = { [HTML]: HTML, [`a${RTL}b`]: `abc${RTL}gnp.exe`, mime: `text/html${RTL};x`, "urn:x:1": "javascript:alert(1)" };
  const first = await space.transaction((tx) => tx.set("urn:evil:1", { ...value, n: 1 } as Json), { note: { message: `${RTL}${HTML}` } });
  await first.confirmed();
  await space.transact((tx) => tx.patch("urn:evil:1", [{ op: "replace", path: "/n", value: 2 }]), { note: { message: `${HTML}${RTL}` } });
  const side = await space.branch("../../<b>".replaceAll(/[<>]/g, "-"), { create: true });
  await side.transact((tx) => tx.patch("urn:evil:1", [{ op: "replace", path: "/mime", value: `${RTL}side` }]), { note: { message: `${RTL}side` } });
  await space.transact((tx) => tx.patch("urn:evil:1", [{ op: "replace", path: "/mime", value: `${RTL}main` }]), { note: { message: `${RTL}main` } });
  await space.tag("x'\"-".replaceAll(/[^x-]/g, "."), { version: first.version! } as never).catch(() => undefined);
  const source = encodeURIComponent("../../-b-");
  for (const path of [
    "/entities?prefix=urn%3Aevil%3A", `/entities?prefix=urn%3Aevil%3A&sel=urn%3Aevil%3A1&path=${encodeURIComponent("/mime")}`, "/entity?id=urn:evil:1", "/entity?id=urn:evil:1&tab=history",
    "/entity?id=urn:evil:1&tab=blame", "/entity?id=urn:evil:1&tab=diff", "/entity?id=urn:evil:1&tab=edit", "/commits", `/commits?c=${first.version}`, "/branches", `/merge?source=${source}&target=main`,
    `/diff?from=main@1&to=${source}@head`, "/live", `/entities?b=${source}`,
  ]) {
    const page = await world.tab(base + path);
    await page.waitForFunction(() => document.querySelector("[data-row], .json .line, .pair, .editor .primary:not(:disabled), .conflict, .picture .point") !== null, { timeout: 20_000 });
    await new Promise((resolve) => setTimeout(resolve, 150));
    await harmless(page, path);
    await page.close();
  }
  const edit = await world.tab(`${base}/entity?id=urn:evil:1&tab=edit`);
  await edit.waitForSelector(".editor .primary:not(:disabled)");
  assert.match(await edit.$eval("textarea", (area) => area.value), /abc\\u202egnp\.exe/);
  await edit.type("textarea[name=value]", " ");
  await click(edit, ".editor button", "Save");
  await edit.waitForFunction(() => document.querySelector(".editor") === null);
  assert.equal(((await space.get("urn:evil:1")) as { [key: string]: Json })[`a${RTL}b`], `abc${RTL}gnp.exe`, "an edit that changed nothing changed nothing");
  await edit.close();
});

rule("CONSOLE-1", "CONSOLE-5").test("addresses made to mislead are shown as text and lead nowhere", async () => {
  const bad = encodeURIComponent(`${RTL}${HTML}`);
  const wrong: unknown[] = [];
  for (const path of [
    `/entities?b=${bad}`, `/entities?at=${bad}`, `/entities?at=tag:${bad}`, `/entities?prefix=${bad}`, `/entities?from=${bad}&prefix=urn%3Aevil%3A`, `/entity?id=${bad}`, `/entity?id=${bad}&tab=edit`, `/entity?id=urn:evil:1&tab=${bad}`,
    `/entities?sel=${bad}&path=${bad}`, `/commits?author=${bad}`, `/commits?c=${bad}`, `/commits?prefix=${bad}`, `/merge?source=${bad}&target=${bad}`, `/merge?source=${bad}&target=main`, `/merge?strategy=${bad}`,
    `/diff?from=${bad}@3&to=main@${bad}`, `/live?prefix=${bad}`, `/${bad}?at=1`, "/entities?at=0", "/entities?at=999999999999999", `/entities?at=${"9".repeat(400)}`, "/entities?__proto__=1&constructor=2",
  ]) {
    const page = await world.tab(base + path);
    await page.waitForFunction(() => document.querySelector(".loading") === null && (document.querySelector("#app")?.textContent ?? "").length > 80, { timeout: 20_000 });
    await new Promise((resolve) => setTimeout(resolve, 150));
    await harmless(page, path).catch((error: unknown) => wrong.push(error));
    await page.close();
  }
  assert.deepEqual(wrong, []);
  const spaces = (): number => readdirSync(world.server.data, { recursive: true }).length;
  const before = spaces();
  for (const did of ["did:key:zzzz", `did:key:${bad}`, "did:web:example.org", "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooW0", "__proto__", "..%2f..%2fmetrics"]) {
    const page = await world.tab(`/console/${did}/entities`);
    await says(page, "Open a space");
    await harmless(page, did);
    await page.close();
  }
  assert.equal(spaces(), before, "no link makes a space");
});

rule("CONSOLE-1", "ACL-2").test("a link into a space without rights tells no more than one into a space that is not there", async () => {
  const secret = await world.space("secret");
  await secret.transact((tx) => tx.set("urn:secret:1", { name: "hidden" }), { note: { message: "hidden" } });
  const told: string[] = [];
  for (const did of [secret.did, "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"]) {
    for (const path of ["entities", "entity?id=urn:secret:1", "commits?at=2", "branches", "diff?from=main@1&to=main@2", "live", "merge?source=a&target=main"]) {
      const page = await world.tab(`/console/${did}/${path}`);
      await page.waitForSelector(".connect .why");
      told.push((await text(page, "#app")).replaceAll(did, "DID"));
      await page.close();
    }
  }
  assert.equal(new Set(told).size, 1);
  assert.ok(!told[0]!.includes("hidden"));
});

rule("CONSOLE-5", "CONSOLE-6").test("a text of 8 MiB, 64 levels and a key __proto__: each screen answers, and an edit loses nothing", async () => {
  const long = "x".repeat(8 * 1024 * 1024 - 200);
  let deep: Json = "bottom";
  for (let level = 0; level < 62; level += 1) deep = level % 2 ? [deep] : { down: deep };
  await space.transact((tx) => tx.set("urn:big:long", { long }));
  await space.transact((tx) => tx.patch("urn:big:long", [{ op: "add", path: "/n", value: 1 }]));
  await space.transact((tx) => tx.set("urn:big:deep", { deep }));
  await space.transact((tx) => tx.set("urn:big:proto", JSON.parse('{"__proto__": {"isOwner": true}, "constructor": {"prototype": 1}}') as Json));
  for (const path of ["/entities?prefix=urn%3Abig%3A", "/entity?id=urn:big:long", "/entity?id=urn:big:long&tab=history", "/entity?id=urn:big:long&tab=blame", "/entity?id=urn:big:long&tab=diff", "/commits", "/live?prefix=urn%3Abig%3A", "/diff?from=main@1&to=main@head"]) {
    const page = await world.tab(base + path);
    await page.waitForFunction(() => document.querySelector("[data-row], .json .line, .pair") !== null, { timeout: 60_000 });
    assert.ok((await text(page, "#app")).length < 200_000, `${path}: not all of it is drawn`);
    await harmless(page, path);
    await page.close();
  }
  const down = await world.tab(`${base}/entity?id=urn:big:deep`);
  await down.waitForSelector(".json .line");
  for (let tries = 0; tries < 64 && !(await text(down, ".json")).includes("bottom"); tries += 1) await down.evaluate(() => [...document.querySelectorAll<HTMLElement>(".fold[aria-expanded=false]")].at(-1)?.click());
  assert.match(await text(down, ".json"), /bottom/);
  await harmless(down, "deep");
  await down.close();
  const edit = await world.tab(`${base}/entity?id=urn:big:proto&tab=edit`);
  await edit.waitForSelector(".editor .primary:not(:disabled)");
  await edit.$eval("textarea", (area) => {
    area.value = area.value.replace('"isOwner":true', '"isOwner":false');
    area.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await click(edit, ".editor button", "Save");
  await edit.waitForFunction(() => document.querySelector(".editor") === null);
  assert.equal(JSON.stringify(await space.get("urn:big:proto")), '{"__proto__":{"isOwner":false},"constructor":{"prototype":1}}');
  assert.equal(await edit.evaluate(() => ({} as { isOwner?: boolean }).isOwner), undefined);
  await edit.close();
});

rule("CONSOLE-5", "HTTP-3").test("blobs of SVG and HTML are references in the console, and run nowhere at its origin", async () => {
  const { space: did } = cli(world, config, "space", "create", "files") as { space: string };
  const me = await world.browserDid();
  cli(world, config, "acl", "set", me, "read", "--space", "files");
  const bodies = [["image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" onload="document.title='owned'"/>`], ["text/html", `<title>owned</title>${HTML}`]] as const;
  for (const [type, body] of bodies) {
    const file = join(config, "blob");
    writeFileSync(file, body);
    const [blob] = /b3:[a-z2-7]{52}/.exec(JSON.stringify(cli(world, config, "blob", "put", file, "--type", type, "--space", "files")))!;
    cli(world, config, "set", "urn:blob:1", JSON.stringify({ file: { blob, type: `${type}${RTL}`, name: `picture${RTL}gvs.html`, data: `data:${type},${body}` } }), "--space", "files");
    const page = await world.tab(`/console/${did}/entity?id=urn:blob:1`);
    await says(page, type);
    await says(page, blob);
    await harmless(page, type);
    await page.goto(`${world.origin}/v1/spaces/${did}/blobs/${blob}`).catch(() => undefined); // some browsers refuse to show an answer of 401
    assert.equal(await page.evaluate(() => document.title === "owned" || document.querySelector("svg, img") !== null), false, "without a token the address gives an error");
    await page.close();
  }
});

rule("CONSOLE-2", "CONSOLE-4").test("no page of the console is shown in a frame, and no other page hears of a delegation", async () => {
  const other = createServer((_, response) => response.setHeader("Content-Type", "text/html").end(`<title>other</title>
    <iframe src="${world.origin}${base}/entities"></iframe><iframe src="${world.origin}/console/pair#1.${"x".repeat(22)}.read.demo"></iframe><iframe src="${world.origin}/console"></iframe>`));
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  after(() => void (other.closeAllConnections(), other.close()));
  const page = await world.browser.newPage();
  await page.goto(`http://127.0.0.1:${(other.address() as { port: number }).port}/`);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  assert.equal(page.frames().length, 4);
  for (const frame of page.frames().slice(1)) {
    const isShown = frame.evaluate(() => document.querySelector("#app") !== null).catch(() => false); // a page of an error may not answer
    assert.equal(await Promise.race([isShown, new Promise((resolve) => setTimeout(() => resolve(false), 1_000))]), false);
  }
  const sent = await page.evaluate((origin) => fetch(`${origin}/console`).then(() => "read", () => "refused"), world.origin);
  assert.equal(sent, "refused");
  const socket = await page.evaluate((url) => new Promise((resolve) => {
    const made = new WebSocket(url, "stemma.v1.json");
    made.onopen = () => resolve("open");
    made.onerror = () => resolve("refused");
  }), world.server.url);
  assert.equal(socket, "refused");
  await page.close();
});
