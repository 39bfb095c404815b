// What the hooks do on a server, and the sharing of watches; in a page they are tested in browser/.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { createElement } from "react";
import { renderToString } from "react-dom/server";
import { connect, type Database, identityOf, newKeys, type Space } from "@stemmadb/client";
import { StemmaProvider, useEntity, useQuery } from "../src/index.ts";
import { sharedWatch } from "../src/store.ts";
import { rule } from "../../client/test/support/rules.ts";
import { Server } from "../../client/test/support/server.ts";

let server: Server;
let db: Database;
let space: Space;

before(async () => {
  server = await Server.start();
  db = await connect(server.url, { signer: await identityOf(await newKeys()) });
  space = await db.space("react");
});

after(async () => {
  await db.close({ waitMs: 0 });
  await server.close();
});

rule("TS-10").test("on a server a query is loading, and nothing is watched", () => {
  function Page(): string {
    return `${useQuery("urn:todo:*").state} ${useQuery("urn:todo:*").list.length} ${useEntity("urn:todo:1").state}`;
  }
  assert.equal(renderToString(createElement(StemmaProvider, { space }, createElement(Page))), "loading 0 loading");
  assert.throws(() => renderToString(createElement(Page)), /StemmaProvider/);
});

rule("TS-10").test("equal queries in new objects are one watch, and a snapshot is new only if something changed", async () => {
  const schema = (): { type: "object"; properties: { done: { const: false } } } => ({ type: "object", properties: { done: { const: false } } });
  const one = sharedWatch(space, "urn:todo:*", { schema: schema() });
  assert.equal(sharedWatch(space, "urn:todo:*", { schema: schema() }), one);
  assert.notEqual(sharedWatch(space, "urn:todo:*", {}), one);
  const watch = sharedWatch(space, "urn:todo:*", {});
  let calls = 0;
  const stops = Array.from({ length: 1_000 }, () => watch.subscribe(() => (calls += 1)));
  await new Promise<void>((resolve) => {
    const stop = watch.subscribe(() => (watch.get().state === "live" ? (stop(), resolve()) : undefined));
    if (watch.get().state === "live") resolve();
  });
  await (await space.transaction((tx) => tx.set("urn:todo:1", { title: "a" }))).confirmed();
  await (await space.transaction((tx) => tx.set("urn:todo:2", { title: "b" }))).confirmed();
  const before = watch.get();
  assert.equal(watch.get(), before);
  calls = 0;
  await (await space.transaction((tx) => tx.set("urn:todo:2", { title: "c" }))).confirmed();
  assert.equal(calls, 1_000, "each component once: the verdict changes nothing that is seen");
  const now = watch.get();
  assert.notEqual(now, before);
  assert.equal(now.data.get("urn:todo:1"), before.data.get("urn:todo:1"), "what did not change is the same object");
  assert.deepEqual(now.list, [{ title: "a" }, { title: "c" }]);
  for (const stop of stops) stop();
});
