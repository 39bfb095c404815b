// Against a real `stemmadb serve`.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { connect, type Database, type FromSchema, identityFromSeed, newKeys, identityOf, StemmaError, Conflict } from "../src/index.ts";
import type { ConnectOptions } from "../src/database.ts";
import type { Json } from "../src/values/json.ts";
import { rule } from "./support/rules.ts";
import { Server } from "./support/server.ts";
import { hex, vectors } from "./support/vectors.ts";

let server: Server;
const open: Database[] = [];

before(async () => {
  server = await Server.start();
});

after(async () => {
  for (const db of open) await db.close({ waitMs: 0 }).catch(() => undefined);
  await server.close();
});

async function client(options: ConnectOptions = {}): Promise<Database> {
  const db = await connect(server.url, { ...options, signer: options.signer ?? (await identityOf(await newKeys())) });
  open.push(db);
  return db;
}

async function eventually(holds: () => boolean): Promise<void> {
  for (let tries = 0; tries < 500 && !holds(); tries += 1) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(holds());
}

rule("TS-1", "NURSERY-1", "NURSERY-5").test("a write is in view at once, then confirmed, and another client sees it", async () => {
  const [ann, bob] = [await client(), await client()];
  const mine = await ann.space("one");
  await mine.transact((tx) => tx.set(mine.did, { [ann.identity.did]: "own", [bob.identity.did]: "write" }));
  const watch = mine.watch("urn:todo:*");
  await watch.ready;
  const tx = await mine.transaction((t) => t.set("urn:todo:1", { title: "a", n: 9007199254740993n }));
  assert.equal(tx.status, "pending");
  assert.deepEqual(watch.current().get("urn:todo:1"), { title: "a", n: 9007199254740993n });
  await tx.confirmed();
  assert.equal(tx.status, "confirmed");
  const theirs = await bob.space(mine.did);
  assert.deepEqual(await theirs.get("urn:todo:1"), { title: "a", n: 9007199254740993n });
  await (await theirs.transaction((t) => t.increment("urn:todo:1", "/n"))).confirmed();
  await eventually(() => (watch.current().get("urn:todo:1") as { n?: bigint })?.n === 9007199254740994n);
  const again = await mine.transaction((t) => t.patch("urn:todo:1", [{ op: "replace", path: "/title", value: "b" }]));
  await again.confirmed();
  assert.deepEqual(watch.current().get("urn:todo:1"), { title: "b", n: 9007199254740994n });
});

rule("NURSERY-3", "COMMIT-2", "SYNC-5").test("a conflict names what changed, takes what was built on it, and can be retried", async () => {
  const ann = await client();
  const one = await ann.space("two");
  const other = await (await client({ signer: ann.identity })).space(one.did);
  await (await one.transaction((t) => t.set("urn:x:1", { n: 1 }))).confirmed();
  const watch = one.watch("urn:x:*");
  await watch.ready;
  const lost = await one.transaction(async (t) => {
    const n = (await t.get("urn:x:1", "/n")) as number;
    await other.transact((theirs) => theirs.set("urn:x:1", { n: 5 }));
    t.patch("urn:x:1", [{ op: "replace", path: "/n", value: n + 1 }]);
  });
  const built = await one.transaction(async (t) => t.set("urn:x:2", { from: (await t.get("urn:x:1", "/n")) as Json }));
  const [why, because] = await Promise.all([lost.confirmed().catch((e: unknown) => e), built.confirmed().catch((e: unknown) => e)]);
  assert.ok(why instanceof Conflict && why.stale[0]?.id === "urn:x:1");
  assert.deepEqual(why.current.get("urn:x:1"), { n: 5 });
  assert.equal((because as StemmaError).code, "dependency");
  assert.deepEqual([...watch.current()], [["urn:x:1", { n: 5 }]]);
  assert.equal(one.rejected().length, 2);
  const again = (await lost.rejection!.retry()) as { confirmed(): Promise<void> };
  await again.confirmed();
  assert.deepEqual(await one.get("urn:x:1"), { n: 2 });
  one.rejected()[0]!.drop();
  assert.equal(one.rejected().length, 0);
  const counted = await Promise.all([1, 2, 3].map(() => one.transact(async (t) => t.update("urn:x:1", { n: ((await t.get("urn:x:1", "/n")) as number) + 1 }))));
  assert.equal(counted.length, 3);
  assert.deepEqual(await one.get("urn:x:1"), { n: 5 });
});

rule("RESUME-1", "RESUME-2", "RESUME-5").test("work made while the server is away is in view, and confirmed once when it is back", async () => {
  const space = await (await client({ settings: { mostPauseMs: 200 } })).space("three");
  const watch = space.watch("urn:y:*");
  await watch.ready;
  await (await space.transaction((t) => t.set("urn:y:1", { n: 0 }))).confirmed();
  await server.stop();
  await eventually(() => space.status().link === "offline");
  const made = [];
  for (let index = 0; index < 20; index += 1) made.push(await space.transaction((t) => t.increment("urn:y:1", "/n")));
  assert.deepEqual(watch.current().get("urn:y:1"), { n: 20 });
  assert.equal(space.pending().length, 20);
  await assert.rejects(space.transaction((t) => t.patch("urn:zz:1", [{ op: "remove", path: "/a" }])), { code: "not_in_view" });
  await server.resume();
  space.nudge();
  await Promise.all(made.map((tx) => tx.confirmed()));
  assert.deepEqual(await space.get("urn:y:1"), { n: 20 });
  let commits = 0;
  for await (const entry of space.log()) if (entry.session !== undefined) commits += 1;
  assert.equal(commits, 22, "the access list, one set, twenty increments");
});

rule("TS-9").test("a watch with a schema is the server's word, with pending values on top", async () => {
  const space = await (await client()).space("four");
  const schema = { type: "object", properties: { done: { const: false }, title: { type: "string" } }, required: ["done"] } as const;
  const watch = space.watch("urn:t:*", { schema });
  await watch.ready;
  assert.equal(watch.localSchema, false);
  const tx = await space.transaction((t) => t.set("urn:t:1", { done: false, title: "a" }));
  assert.equal(watch.current().size, 0, "it moves when the verdict comes");
  await tx.confirmed();
  await eventually(() => watch.current().size === 1);
  const todo: FromSchema<typeof schema> | undefined = watch.current().get("urn:t:1");
  const title: string | undefined = todo?.title; // the type comes from the schema
  assert.equal(title, "a");
  const changed = await space.transaction((t) => t.patch("urn:t:1", [{ op: "replace", path: "/title", value: "b" }]));
  assert.equal((watch.current().get("urn:t:1") as { title?: string }).title, "b", "pending values are on top at once");
  await changed.confirmed();
  await (await space.transaction((t) => t.patch("urn:t:1", [{ op: "replace", path: "/done", value: true }]))).confirmed();
  await eventually(() => watch.current().size === 0);
  const bad = space.watch("urn:t:*", { schema: { type: "nonsense" } });
  await assert.rejects(bad.ready, { code: "invalid_schema" });
  assert.equal(bad.state, "failed");
});

rule("HISTORY-1", "BRANCH-1", "MERGE-3").test("the past, branches and merges", async () => {
  const space = await (await client()).space("five");
  const first = await space.transaction((t) => t.set("urn:p:1", { a: 1, b: 1 }), { note: "first" });
  await first.confirmed();
  await space.tag("v1");
  const draft = await space.branch("draft", { create: true });
  await (await draft.transaction((t) => t.patch("urn:p:1", [{ op: "replace", path: "/a", value: 2 }]))).confirmed();
  await (await space.transaction((t) => t.patch("urn:p:1", [{ op: "replace", path: "/b", value: 3 }]))).confirmed();
  const dry = await draft.mergeInto("main", { strategy: "fields", dry_run: true });
  assert.deepEqual([dry.version, dry.writes_count], [undefined, 1]);
  await draft.mergeInto("main", { strategy: "fields" });
  assert.deepEqual(await space.get("urn:p:1"), { a: 2, b: 3 });
  assert.deepEqual(await space.at({ version: first.version! }).get("urn:p:1"), { a: 1, b: 1 });
  assert.equal(await space.at({ tag: "v1" }).get("urn:p:1", "/b"), 1);
  assert.deepEqual((await space.branches()).map((one) => one.name), ["draft", "main"]);
  const lines = [];
  for await (const line of space.blame("urn:p:1")) lines.push(line.path);
  assert.deepEqual(lines.sort(), ["/a", "/b"]);
  const kinds = [];
  for await (const entry of space.history("urn:p:1", { order: "oldest" })) kinds.push(entry.kind);
  assert.equal(kinds[0], "set");
  const changes = [];
  for await (const change of space.diff(first.version!, "main")) changes.push(change.id);
  assert.deepEqual(changes, ["urn:p:1"]);
  await assert.rejects(space.branch("nowhere"), { code: "unknown_branch" });
  await assert.rejects(space.at({ version: 9_999 }).get("urn:p:1"), { code: "future_version" });
});

rule("TS-6").test("keys sign as the vectors say, and anything that signs can be the signer", async () => {
  const { cases } = vectors<{ cases: { seed_hex: string; did: string; payload_hex: string; signature_hex: string }[] }>("signatures");
  for (const one of cases) {
    const identity = await identityFromSeed(hex(one.seed_hex));
    assert.equal(identity.did, one.did);
    assert.deepEqual(await identity.sign(hex(one.payload_hex)), hex(one.signature_hex));
  }
  const seeded = await identityFromSeed(hex(cases[0]!.seed_hex));
  const db = await client({ signer: { did: seeded.did, sign: (payload) => seeded.sign(payload) } });
  await db.space("six");
  const liar = await connect(server.url, { signer: { did: seeded.did, sign: async () => new Uint8Array(64) } });
  await assert.rejects(liar.space((await db.space("six")).did), (error: StemmaError) => error.code === "unauthenticated");
});

rule("NURSERY-4").test("an iterator sees each visible change once, and a slow one sees one change to the present", async () => {
  const space = await (await client()).space("seven");
  const watch = space.watch("urn:i:*");
  const seen: string[] = [];
  for await (const change of watch) {
    seen.push(`${[...change.entered.keys()]}|${[...change.updated.keys()]}|${change.left}`);
    if (seen.length === 1) {
      await space.transaction((t) => t.set("urn:i:1", 1));
      await space.transaction((t) => t.set("urn:i:2", 2));
      await space.transaction((t) => t.set("urn:i:1", 3));
    } else if (seen.length === 2) await space.transaction((t) => t.delete("urn:i:2"));
    else watch.close();
  }
  assert.deepEqual(seen, ["||", "urn:i:1,urn:i:2||", "||urn:i:2"]);
});

rule("NURSERY-7", "WIRE-4").test("wrong use and bad input get one clear error, and nothing is written", async () => {
  await assert.rejects(connect("http://127.0.0.1:1"), { code: "malformed" });
  const nowhere = await connect("ws://127.0.0.1:1", { settings: { openMs: 500 } });
  await assert.rejects(nowhere.space("x"), { code: "unreachable" });
  const db = await client();
  const space = await db.space("eight");
  await assert.rejects(space.transaction((t) => t.set("no uri", 1)), { code: "invalid_id" });
  await assert.rejects(space.transaction((t) => t.set("urn:e:1", new Date())), { code: "invalid_value" });
  await assert.rejects(space.transaction((t) => t.patch("urn:e:1", [{ op: "hop", path: "" }])), { code: "patch_failed" });
  await assert.rejects(space.transaction(() => { throw new Error("the app's own"); }), /the app's own/);
  await assert.rejects(space.ask("log", { prefix: "x".repeat(2_000_000) }), { code: "limit_exceeded" });
  assert.equal(space.pending().length, 0);
  let draft: { set(id: string, value: unknown): void } | undefined;
  await space.transaction((t) => void (draft = t));
  assert.throws(() => draft!.set("urn:e:2", 1), { code: "malformed" });
  await db.close();
  await assert.rejects(db.space("eight"), { code: "going_away" });
  assert.throws(() => void space.watch("*"), { code: "going_away" });
});
