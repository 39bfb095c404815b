// The console as a real server gives it out, a browser, and spaces to look at.
import { connect, type Database, type Identity, identityFromSeed, type Json, type Space } from "@stemmadb/client";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "puppeteer-core";
import { Server } from "../client/test/support/server.ts";
import { buildConsole } from "../console/build.ts";
import { launched } from "./support.ts";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));
export const PYTHON = process.env["STEMMADB_PYTHON"] ?? join(ROOT, ".venv/bin/python");
export const STEMMADB = join(dirname(PYTHON), "stemmadb");
export const AUTHORS = ["ada", "bob", "cyd"] as const;
export type Author = (typeof AUTHORS)[number];

export function author(name: Author | "owner"): Promise<Identity> {
  return identityFromSeed(new Uint8Array(32).fill([...AUTHORS, "owner"].indexOf(name) + 1));
}

export class ConsoleWorld {
  server!: Server;
  browser!: Browser;
  origin = "";
  /** What the page wrote to its console as an error, and each breach of the CSP. */
  readonly complaints: string[] = [];
  private readonly profile = mkdtempSync(join(tmpdir(), "stemmadb-chromium-"));
  private readonly databases = new Map<string, Database>();

  /** `options` are those of `stemmadb serve`. */
  static async open(...options: string[]): Promise<ConsoleWorld> {
    const world = await ConsoleWorld.served(...options);
    world.browser = await launched(world.profile, "--lang=en-GB");
    return world;
  }

  /** The same without a browser. */
  static async served(...options: string[]): Promise<ConsoleWorld> {
    const world = new ConsoleWorld();
    await buildConsole();
    world.server = await Server.start(...options);
    world.origin = `http://127.0.0.1:${world.server.port}`;
    return world;
  }

  /** A space as its owner or one of its authors sees it. */
  async as(name: Author | "owner", did = "demo"): Promise<Space> {
    let db = this.databases.get(name);
    if (db === undefined) this.databases.set(name, (db = await connect(this.server.url, { signer: await author(name) })));
    return db.space(did);
  }

  /** The same over a new connection that knows nothing, as after a restore. */
  async fresh(name: Author | "owner", did: string): Promise<Space> {
    await this.databases.get(name)?.close({ waitMs: 0 });
    this.databases.delete(name);
    return this.as(name, did);
  }

  /** A new space in which all authors may write. */
  async space(name: string): Promise<Space> {
    const space = await this.as("owner", name);
    await space.transact(async (tx) => {
      const rights = Object.fromEntries(await Promise.all(AUTHORS.map(async (one) => [(await author(one)).did, "write"])));
      tx.set(space.did, { [(await author("owner")).did]: "own", ...rights } as Json);
    }, { note: { message: "who may do what" } });
    return space;
  }

  /** A tab. Errors and breaches of the CSP go to `complaints`. */
  async tab(path = "/console", size = { width: 1440, height: 900 }): Promise<Page> {
    const page = await this.browser.newPage();
    await page.setViewport(size);
    page.on("pageerror", (error) => this.complaints.push(String(error)));
    page.on("console", (message) => void (["error", "warn"].includes(message.type()) && !/WebSocket connection|ERR_CONNECTION|ERR_EMPTY|StemmaDB: a commit was refused/.test(message.text()) && this.complaints.push(message.text())));
    await page.goto(this.origin + path);
    return page;
  }

  /** The identity of this browser. */
  async browserDid(): Promise<string> {
    const page = await this.tab("/console");
    await page.waitForSelector(".copyable code");
    const did = await page.$eval(".copyable code", (code) => code.textContent!);
    await page.close();
    return did;
  }

  /** This browser stores a delegation, as with the tick "Stay". */
  async keep(did: string, delegation: string): Promise<void> {
    const page = await this.tab("/console");
    await page.waitForSelector("input[name=space]");
    await page.type("input[name=space]", did);
    await page.$eval("textarea[name=delegation]", (area, text) => {
      (area as HTMLTextAreaElement).value = text;
      area.dispatchEvent(new Event("input", { bubbles: true }));
    }, delegation);
    await page.click(".tick input");
    await page.click("form .primary");
    await page.waitForFunction((did) => location.pathname.includes(did), { timeout: 20_000 }, did);
    await page.close();
  }

  /** This browser drops the delegation that it stored. */
  async forget(did: string): Promise<void> {
    const page = await this.tab("/console");
    await page.evaluate((did) => new Promise<void>((resolve, reject) => {
      const opening = indexedDB.open("stemmadb-console");
      opening.onerror = () => reject(new Error("no database"));
      opening.onsuccess = () => {
        const transaction = opening.result.transaction("delegations", "readwrite");
        transaction.objectStore("delegations").delete(did);
        transaction.oncomplete = () => (opening.result.close(), resolve());
      };
    }), did);
    await page.close();
  }

  /** `role` is given to this browser in the space, by an owner of it. */
  async letIn(space: Space, role: "read" | "write" = "read", by?: Space): Promise<string> {
    const did = await this.browserDid();
    await this.grant(space, did, role, by);
    return did;
  }

  /** An owner of the space gives the role to an identity. */
  async grant(space: Space, did: string, role: "read" | "write", by?: Space): Promise<void> {
    const owner = by ?? (await this.as("owner", space.did));
    await owner.transact(async (tx) => {
      const rights = (await tx.get(space.did)) as { [did: string]: Json };
      tx.set(space.did, { ...rights, [did]: role });
    }, { note: { message: "the console of this browser" } });
  }

  async shot(page: Page, name: string): Promise<void> {
    const directory = process.env["STEMMADB_PICTURES"];
    if (!directory) return;
    mkdirSync(directory, { recursive: true });
    await new Promise((resolve) => setTimeout(resolve, 250));
    await page.screenshot({ path: join(directory, `${name}.png`) as `${string}.png` });
  }

  async close(): Promise<void> {
    await this.browser?.close().catch(() => undefined);
    for (const db of this.databases.values()) await db.close({ waitMs: 0 }).catch(() => undefined);
    await this.server.close();
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Runs the CLI against the server of a world and gives what it printed as JSON. */
export function cli(world: ConsoleWorld, config: string, ...given: string[]): Json {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("STEMMADB_")));
  const url = given[0] === "keys" ? [] : ["--url", world.server.url];
  const ran = spawnSync(STEMMADB, [...given, ...url, "--json"], { env: { ...env, STEMMADB_HOME: config }, encoding: "utf8" });
  const last = ran.stdout.trim().split("\n").at(-1);
  if (!last) throw new Error(`stemmadb ${given.join(" ")} printed nothing: ${ran.stderr}`);
  return JSON.parse(last) as Json;
}

const TITLES = ["write the spec", "measure twice", "cut the release", "answer the mail", "draw the map", "mend the roof", "feed the cat", "learn the tune", "pack the bags", "call the bank"];

/** Todos, people, comments, a branch with a merge, a second branch with three conflicts, tags. The same each time. */
export async function fillDemo(world: ConsoleWorld, space: Space, commits = 80): Promise<void> {
  const people = { "urn:user:1": "Ada", "urn:user:2": "Bob", "urn:user:3": "Cyd" };
  const ada = await world.as("ada", space.did);
  const write = (name: Author, note: string, ...steps: Parameters<Space["transact"]>): Promise<unknown> => world.as(name, space.did).then((on) => on.transact(steps[0], { note: { message: note } }));
  await write("ada", "the people", (tx) => Object.entries(people).forEach(([id, name]) => tx.set(id, { name, team: name === "Cyd" ? "paper" : "core" })));
  for (let n = 0; n < commits; n += 1) {
    const name = AUTHORS[(n * 7) % 3]!;
    const number = (n % 34) + 1;
    const id = `urn:todo:${number}`;
    if (n < 34) await write(name, `a task: ${TITLES[n % 10]}`, (tx) => tx.set(id, { title: `${TITLES[n % 10]}${n >= 10 ? ` (${Math.floor(n / 10) + 1})` : ""}`, done: false, votes: n % 5, by: `urn:user:${(n % 3) + 1}`, tags: n % 2 ? ["home"] : ["work", "soon"] }));
    else if (n % 3 === 0) await write(name, "vote", (tx) => tx.increment(id, "/votes"));
    else if (n % 3 === 1) await write(name, "done at last", (tx) => tx.patch(id, [{ op: "replace", path: "/done", value: true }]));
    else await write(name, "say it better", (tx) => tx.patch(id, [{ op: "replace", path: "/title", value: `${TITLES[(n * 3) % 10]}, with care` }]));
    if (n === 40) await space.tag("v1");
    if (n % 20 === 19) await write("cyd", "a comment", (tx) => tx.set(`urn:comment:${n}`, { on: id, text: "Is this still needed?", by: "urn:user:3" }));
  }
  const polish = await ada.branch("polish", { create: true });
  await polish.transact((tx) => tx.patch("urn:todo:2", [{ op: "add", path: "/due", value: "2026-12-01" }]), { note: { message: "a date for it" } });
  await polish.transact((tx) => tx.set("urn:todo:40", { title: "celebrate", done: false, votes: 9, by: "urn:user:1", tags: [] }), { note: { message: "a reason to be glad" } });
  await polish.mergeInto("main", { strategy: "fields", note: { message: "polish is ready" } });
  const draft = await ada.branch("draft", { create: true });
  const onDraft = (note: string, id: string, value: Json, path: string): Promise<unknown> => draft.transact((tx) => tx.patch(id, [{ op: "replace", path, value }]), { note: { message: note } });
  await onDraft("rename on draft", "urn:todo:1", "write a better spec", "/title");
  await onDraft("more votes", "urn:todo:3", 30, "/votes");
  await onDraft("another owner", "urn:todo:5", "urn:user:3", "/by");
  await draft.transact((tx) => tx.set("urn:todo:41", { title: "only on draft", done: false, votes: 0, by: "urn:user:2", tags: ["idea"] }), { note: { message: "an idea" } });
  await write("bob", "rename on main", (tx) => tx.patch("urn:todo:1", [{ op: "replace", path: "/title", value: "write the whole spec" }]));
  await write("bob", "vote", (tx) => tx.patch("urn:todo:3", [{ op: "replace", path: "/votes", value: 12 }]));
  await write("cyd", "handed over", (tx) => tx.patch("urn:todo:5", [{ op: "replace", path: "/by", value: "urn:user:1" }]));
  await space.tag("v2");
  await write("ada", "mail is answered", (tx) => tx.patch("urn:todo:4", [{ op: "replace", path: "/done", value: true }]));
}

/** Screens and states of a space that `fillDemo` filled: a name, the address, and a text that is there when it is shown. */
export const VIEWS: readonly (readonly [string, string, string])[] = [
  ["entities", "/entities?prefix=urn%3Atodo%3A", "urn:todo:10"], ["past", "/entities?at=30", "Nothing can be changed here"], ["cell", "/entities?prefix=urn%3Atodo%3A&sel=urn%3Atodo%3A1&path=%2Ftitle", "wrote this"],
  ["value", "/entity?id=urn:todo:1", '"title"'], ["history", "/entity?id=urn:todo:1&tab=history", "rename on main"], ["blame", "/entity?id=urn:todo:1&tab=blame", "rename on main"], ["compare", "/entity?id=urn:todo:1&tab=diff", "Compare with"],
  ["edit", "/entity?id=urn:todo:1&tab=edit", "Value, as JSON"], ["commits", "/commits", "rename on main"], ["commit", "/commits?c=40", "Take it back"], ["branches", "/branches", "polish is ready"], ["merge", "/merge?source=draft&target=main", "3 conflicts"],
  ["diff", "/diff?from=main@30&to=main@60", "changed"], ["live", "/live", "urn:todo:4"], ["missing", "/entity?id=urn:todo:99", "There is no such entity"], ["empty", "/entities?prefix=urn%3Anothing%3A", "Nothing is here yet"],
  ["future", "/entities?at=99999", "is not there yet"], ["tag", "/entities?at=tag:nope", "There is no such tag"], ["branch", "/entities?b=nope", "There is no such branch"], ["unreadable", "/entities?at=yesterday", "cannot be read"],
];
