// The real `stemmadb console --web` lets a page in, in Chromium and in Firefox; the page keeps the right with its tab.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import puppeteer, { type Browser, type Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { cli, ConsoleWorld } from "./console_support.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FIREFOX = process.env["STEMMADB_FIREFOX"] ?? "/usr/bin/firefox";
const PATIENCE_MS = 30_000;

let world: ConsoleWorld;
let home: string;

before(async () => {
  world = await ConsoleWorld.open();
  home = mkdtempSync(join(tmpdir(), "stemmadb-pairing-"));
  cli(world, home, "demo");
});
after(async () => {
  await world.close();
  rmSync(home, { recursive: true, force: true });
});

interface Opened {
  readonly url: string;
  readonly process: ChildProcess;
  readonly ended: Promise<{ readonly code: number | null; readonly out: string; readonly err: string }>;
}

/** Runs the command, with a browser that only says where it was sent. */
async function opened(...words: string[]): Promise<Opened> {
  const told = join(home, `told-${Math.random()}`);
  const script = join(home, "browser");
  writeFileSync(script, `#!/bin/sh\ncp "$(printf %s "$1" | sed 's#^file://##')" "${told}.new" && mv "${told}.new" "${told}"\n`);
  chmodSync(script, 0o700);
  const stemmadb = join(dirname(process.env["STEMMADB_PYTHON"] ?? join(ROOT, ".venv/bin/python")), "stemmadb");
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("STEMMADB_")));
  const child = spawn(stemmadb, ["console", "--web", "--space", "demo", "--url", world.server.url, ...words], { env: { ...env, STEMMADB_HOME: home, BROWSER: `${script} %s` } });
  let [out, err] = ["", ""];
  child.stdout.on("data", (data) => (out += String(data)));
  child.stderr.on("data", (data) => (err += String(data)));
  const ended = new Promise<{ code: number | null; out: string; err: string }>((resolve) => child.once("exit", (code) => resolve({ code, out, err })));
  for (let waited = 0; !existsSync(told); waited += 50) {
    assert.ok(waited < PATIENCE_MS && child.exitCode === null, `no browser was started: ${err}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { url: /url=(http[^"]+)"/.exec(readFileSync(told, "utf8"))![1]!, process: child, ended };
}

async function says(page: Page, words: string): Promise<void> {
  await page.waitForFunction((wanted) => document.body.innerText.includes(wanted), { timeout: PATIENCE_MS }, words);
}

async function allowed(page: Page, url: string): Promise<void> {
  await page.goto(url);
  await page.waitForSelector("button.primary", { timeout: PATIENCE_MS });
  assert.equal(page.url(), `${world.origin}/console/pair`, "the code is gone from the address");
  await page.click("button.primary");
  await says(page, "urn:todo:");
}

/** What the printed line takes back. */
function revoke(out: string): void {
  const line = out.split("\n").find((one) => one.startsWith("Revoke: stemmadb "))!;
  cli(world, home, ...line.slice("Revoke: stemmadb ".length).split(" "));
}

async function letsIn(browser: Browser): Promise<void> {
  const command = await opened();
  const page = await browser.newPage();
  await allowed(page, command.url);
  const { code, out } = await command.ended;
  assert.equal(code, 0);
  assert.match(out, /^Delegated read on demo to did:key:z6Mk…\w{4} until \d\d:\d\d\.$/m);
  assert.deepEqual(readdirSync(home).filter((name) => name.startsWith("pairing-")), []);
  revoke(out);
  await says(page, "This page may no longer read here");
  await page.close();
}

rule("CONSOLE-2").test("the page is let in after a click, and the printed line throws it out", async () => {
  await letsIn(world.browser);
});

rule("CONSOLE-2").test("the same in Firefox, which asks before a page may store for good", async () => {
  if (!existsSync(FIREFOX)) return console.log("SKIPPED Firefox: it is not installed");
  const browser = await puppeteer.launch({ browser: "firefox", executablePath: FIREFOX, headless: true });
  try {
    await letsIn(browser);
  } finally {
    await browser.close();
  }
});

rule("CONSOLE-3").test("on plain loopback the right goes with the tabs; the tick makes it stay", async () => {
  const first = await world.browser.newPage();
  await allowed(first, (await opened()).url);
  const address = first.url();
  const second = await world.tab(address.slice(world.origin.length));
  await says(second, "urn:todo:");
  await first.close();
  await second.close();
  const third = await world.tab(address.slice(world.origin.length));
  await says(third, "stemmadb console --web");
  await third.goto((await opened()).url);
  await third.waitForSelector("button.primary");
  await third.click(".tick input");
  await third.click("button.primary");
  await says(third, "urn:todo:");
  await third.close();
  const fourth = await world.tab(address.slice(world.origin.length));
  await says(fourth, "urn:todo:");
  await fourth.close();
});

rule("CONSOLE-2").test("a page that leads to a foreign port sends nothing without the click, and none is shown in a frame", async () => {
  let connections = 0;
  const listener = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as { port: number };
  const page = await world.browser.newPage();
  await page.goto(`${world.origin}/console/pair#${port}.${"x".repeat(22)}.write.demo`);
  await page.waitForSelector("button.primary");
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(connections, 0);
  await page.evaluate(() => [...document.querySelectorAll("button")].find((button) => button.textContent === "No")!.click());
  await says(page, "Nothing was sent");
  assert.equal(connections, 0);
  await page.goto("about:blank");
  await page.setContent(`<iframe src="${world.origin}/console/pair#${port}.${"x".repeat(22)}.write.demo"></iframe>`);
  await new Promise((resolve) => setTimeout(resolve, 500));
  for (const frame of page.frames().slice(1)) assert.equal(await frame.$("button").catch(() => null), null);
  await page.close();
  await new Promise((resolve) => listener.close(resolve));
});

rule("CONSOLE-2").test("a wrong code ends the command, and a code works once", async () => {
  const command = await opened();
  const page = await world.browser.newPage();
  await page.goto(command.url.replace(/#(\d+)\.[\w-]+/, `#$1.${"x".repeat(22)}`));
  await page.waitForSelector("button.primary");
  await page.click("button.primary");
  await says(page, "The code is wrong");
  const { code, err } = await command.ended;
  assert.notEqual(code, 0);
  assert.match(err.replaceAll(/\s+/g, " "), /The code is wrong/);
  const again = await world.browser.newPage();
  await again.goto(command.url);
  await again.waitForSelector("button.primary");
  await again.click("button.primary");
  await says(again, "does not answer");
  await page.close();
  await again.close();
});

rule("CONSOLE-1").test("an id with a slash and a branch of two dots have an address, and a reload shows the same", async () => {
  const owner = await world.space("names");
  await owner.transact((tx) => tx.set("urn:todo:1/history", { title: "an odd name" }));
  const dots = await owner.branch("..", { create: true });
  await dots.transact((tx) => tx.set("urn:todo:1/history", { title: "on the branch of two dots" }));
  await world.letIn(owner);
  for (const [branch, title] of [["main", "an odd name"], ["..", "on the branch of two dots"]] as const) {
    const query = new URLSearchParams({ id: "urn:todo:1/history", b: branch });
    const page = await world.tab(`/console/${owner.did}/entity?${query}`);
    await says(page, title);
    await page.reload();
    await says(page, title);
    await page.close();
  }
});
