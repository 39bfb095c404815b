// A server that names no features: nothing it does not know is sent to it, and what is left works.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { FEATURES } from "../src/constants.ts";
import { connect, type Database, identityOf, newKeys } from "../src/index.ts";
import { rule } from "./support/rules.ts";
import { Server } from "./support/server.ts";

let server: Server;
let db: Database;
const sent: { [field: string]: unknown }[] = [];

before(async () => {
  server = await Server.withoutFeatures();
  const { send } = WebSocket.prototype;
  WebSocket.prototype.send = function (text) {
    sent.push(JSON.parse(String(text)));
    send.call(this, text);
  };
  db = await connect(server.url, { signer: await identityOf(await newKeys()) });
});

after(async () => {
  await db?.close({ waitMs: 0 });
  await server?.close();
});

rule("TS-1", "WIRE-5").test("nothing that an older server does not know is sent to it, and the rest works", async () => {
  const space = await db.space("old");
  assert.equal(space.features().size, 0);
  const watch = space.watch("urn:o:*");
  await watch.ready;
  await space.transact((tx) => tx.set("urn:o:1", { n: 1 }));
  const draft = await space.branch("draft", { create: true });
  await draft.transact((tx) => tx.increment("urn:o:1", "/n"));
  assert.equal((await draft.mergeInto("main", { dry_run: true })).writes_count, 1);
  await draft.mergeInto("main");
  assert.deepEqual([...watch.current()], [["urn:o:1", { n: 2 }]]);
  for await (const entry of space.log({ prefix: "urn:o:", limit: 10 })) assert.ok(entry.version > 0);
  const version = await space.follow();
  assert.equal(version, space.status().asOf!.version, "it says where it is, and is not asked for more");
  const optional = [
    () => space.ask("count", { query: { roots: [{ id: "urn:o:*" }] } }),
    () => space.ask("prefixes", { prefix: "urn:" }),
    () => space.ask("log.histogram", { by: "version" }),
    () => space.ask("log", { with_ids: true }),
    () => space.ask("query", { query: { roots: [{ id: "urn:o:*" }] }, shape: "ids" }),
  ];
  for (const ask of optional) await assert.rejects(ask(), { code: "unsupported_protocol" });
  const names = sent.flatMap(({ type, ...fields }) => [String(type), ...Object.keys(fields).map((field) => `${String(type)}.${field}`)]);
  assert.ok(names.includes("ping") && names.includes("merge.dry_run"));
  assert.deepEqual(names.filter((name) => FEATURES.has(name)), []);
});
