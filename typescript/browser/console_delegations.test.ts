// `stemmadb demo`, then a page that is let in: by `stemmadb console --web` until that is revoked, and by a pasted delegation.
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { rule } from "../client/test/support/rules.ts";
import { cli, ConsoleWorld } from "./console_support.ts";
import { click, says, text } from "./console_steps.ts";

const STEMMADB = join(dirname(process.env["STEMMADB_PYTHON"] ?? fileURLToPath(new URL("../../.venv/bin/python", import.meta.url))), "stemmadb");
const config = mkdtempSync(join(tmpdir(), "stemmadb-config-"));
let world: ConsoleWorld;
const started: ChildProcess[] = [];

before(async () => {
  world = await ConsoleWorld.open();
  cli(world, config, "demo");
});
after(async () => {
  for (const one of started) one.kill();
  await world?.close();
  rmSync(config, { recursive: true, force: true });
});

interface Waiting {
  readonly address: string;
  readonly ended: Promise<{ code: number | null; said: string }>;
}

/** The command, until it has written the file that leads to the page. */
async function pairing(...more: string[]): Promise<Waiting> {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("STEMMADB_")));
  const child = spawn(STEMMADB, ["console", "--web", "--space", "demo", "--url", world.server.url, ...more], { env: { ...env, STEMMADB_HOME: config, BROWSER: "true" }, stdio: ["ignore", "pipe", "pipe"] });
  started.push(child);
  let said = "";
  const heard = (data: unknown): void => void (said += String(data));
  child.stdout!.on("data", heard);
  child.stderr!.on("data", heard);
  const ended = new Promise<{ code: number | null; said: string }>((resolve) => child.once("exit", (code) => setTimeout(() => resolve({ code, said }), 50)));
  for (let tries = 0; tries < 600; tries += 1) {
    const file = /open (\S+\.html)/.exec(said)?.[1];
    if (file !== undefined && existsSync(file)) {
      const found = /url=(\S+)"/.exec(readFileSync(file, "utf8"));
      if (found !== null) return { address: found[1]!.replaceAll("&amp;", "&"), ended };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`no page was offered: ${said}`);
}

rule("CONSOLE-2", "CONSOLE-3").test("a click lets the page read the demo, a second tab too, and the printed line ends it", async () => {
  const { address, ended } = await pairing();
  assert.match(address, /^http:\/\/127\.0\.0\.1:\d+\/console\/pair#\d+\.[\w-]{20,}\.read\.demo$/);
  const code = address.split(".").at(-3)!;
  const processes = readdirSync("/proc").filter((one) => /^\d+$/.test(one)).map((one) => {
    try {
      return readFileSync(`/proc/${one}/cmdline`, "utf8");
    } catch {
      return "";
    }
  });
  assert.ok(!processes.some((one) => one.includes(code)), "the code is in no list of arguments");
  const page = await world.tab(address.slice(world.origin.length));
  await says(page, "Let this page read demo as you, for 8 hours?");
  assert.equal(page.url(), `${world.origin}/console/pair`, "the code has left the address");
  await click(page, "button", "Allow");
  await says(page, "urn:");
  assert.ok((await text(page, ".brand")).includes("demo"));
  const { code: exit, said } = await ended;
  assert.equal(exit, 0, said);
  const revoke = /acl revoke (b3:\w+)/.exec(said)![1]!;
  assert.match(said, /Delegated read on demo/);
  const space = new URL(page.url()).pathname.split("/")[2]!;
  const other = await world.tab(`/console/${space}/commits`); // a new tab asks the open one
  await says(other, "Touching prefix", "placeholder");
  await says(other, "@");
  await other.close();
  cli(world, config, "acl", "revoke", revoke, "--space", "demo");
  await says(page, "This page");
  await page.waitForSelector(".connect");
  await page.close();
});

rule("CONSOLE-2", "CONSOLE-4").test("a delegation that was pasted, narrowed to a prefix, shows that much and no more", async () => {
  const page = await world.tab("/console");
  await page.waitForSelector(".copyable code");
  const me = await text(page, ".copyable code");
  const told = execFileSync(STEMMADB, ["space", "did", "demo", "--url", world.server.url], { env: { ...process.env, STEMMADB_HOME: config }, encoding: "utf8" });
  const space = /did:key:z\w+/.exec(told)![0];
  const ids = (cli(world, config, "list", "urn:", "--space", "demo") as { entities: { [id: string]: unknown } }).entities;
  const prefix = Object.keys(ids)[0]!.split(":").slice(0, 2).join(":") + ":";
  const token = (cli(world, config, "acl", "delegate", me, "read", "--for", "1h", "--prefix", prefix, "--space", "demo") as { delegation: string }).delegation;
  await page.type("input[name=space]", space);
  await page.type("textarea[name=delegation]", token);
  await click(page, "button", "Open");
  await says(page, `You see ${prefix} only.`);
  await page.waitForSelector("[data-row]");
  const shown = await page.$$eval(".rows-body .id", (all) => all.map((one) => one.textContent!));
  assert.ok(shown.length > 0 && shown.every((id) => id.startsWith(prefix)), shown.join(" "));
  await page.close();
});
