// A server that is at one of its bounds: the page goes on without what it does not get.
import { after, before } from "node:test";
import assert from "node:assert/strict";
import type { Json, Space } from "@stemmadb/client";
import { rule } from "../client/test/support/rules.ts";
import { ConsoleWorld } from "./console_support.ts";
import { says } from "./console_steps.ts";

let world: ConsoleWorld;
let space: Space;
let me: string;

before(async () => {
  world = await ConsoleWorld.open("--watch-groups-max", "1");
  space = await world.space("bounds");
  me = await world.letIn(space, "read");
});
after(() => world?.close());

rule("CONSOLE-8", "ACL-2").test("a page that gets no watch of the access list still shows what it may read", async () => {
  const other = space.watch("urn:other:*");
  await other.ready;
  await space.transact((tx) => tx.set("urn:todo:1", 1));
  const page = await world.tab(`/console/${space.did}/entities`);
  await says(page, "urn:todo:1");
  await space.transact((tx) => tx.set("urn:todo:2", 2));
  await says(page, "urn:todo:2");
  await space.transact(async (tx) => {
    const { [me]: _, ...others } = (await tx.get(space.did)) as { [did: string]: Json };
    tx.set(space.did, others);
  });
  await says(page, "This page may no longer read here");
  other.close();
  assert.deepEqual(world.complaints, []);
});
