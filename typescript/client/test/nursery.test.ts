import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { identityFromSeed } from "../src/keys/identity.ts";
import { Membership } from "../src/nursery/confirmed.ts";
import { ABSENT, keyOf, UNKNOWN } from "../src/nursery/entities.ts";
import { Nursery } from "../src/nursery/nursery.ts";
import { restored } from "../src/nursery/pending.ts";
import { messageOf } from "../src/session/outgoing.ts";
import { fromBase64, toBase64 } from "../src/values/bytes.ts";
import { type Json, parse, stringify } from "../src/values/json.ts";
import { encode } from "../src/values/msgpack.ts";
import { Watcher } from "../src/watching/watcher.ts";
import { Connection } from "../src/wire/connection.ts";
import type { Query, SessionOpen, Sync } from "../src/wire/messages.ts";
import { assertSame, type Case, checkDraft, Lives, wantedOf } from "./support/cases.ts";
import { rule } from "./support/rules.ts";
import { vectors } from "./support/vectors.ts";

rule("NURSERY-1", "NURSERY-3", "NURSERY-4", "NURSERY-5", "SYNC-2", "SYNC-3").test("every life of nursery.json and watch_events.json", () => {
  for (const file of ["nursery", "watch_events"]) {
    const { cases } = vectors<{ cases: Case[][] }>(file);
    assert.ok(cases.length >= 3);
    for (const life of cases) {
      const lives = new Lives();
      for (const event of life) lives.check(event);
    }
  }
});

rule("COMMIT-2", "COMMIT-3", "COMMIT-4", "NURSERY-8").test("every transaction of drafts.json", () => {
  for (const one of vectors<{ cases: Case[] }>("drafts").cases) checkDraft(one);
});

interface Held {
  to: number; hash: string | null;
  watches: { watch: number; branch: string; names: string[]; prefixes: string[]; filled: boolean; ids: string[] }[];
  entities: { branch: string; id: string; value: Json; version: number; hash: string }[];
  wanted: string[];
}

/** A nursery that holds this, brought there by one frame. */
function holding(held: Held): Nursery {
  const nursery = new Nursery();
  for (const { watch, branch, names, prefixes } of held.watches) {
    const query: Query = { roots: [{ id: "urn:any" }], branch };
    nursery.watch(watch, new Membership(branch, names, prefixes), new Watcher(watch, query));
  }
  const known = new Map(held.entities.map((one) => [keyOf(one.branch, one.id), one]));
  const entered = held.watches.flatMap(({ watch, branch, ids }) => ids.map((id) => ({ watch, ...known.get(keyOf(branch, id))! })));
  const frame: Sync = {
    type: "sync", from: 0, to: held.to, hash: held.hash ?? "b3:",
    entered: entered.map(({ watch, branch, id, version, hash, value }) => ({ watch, branch, id, version, hash, body: value })),
    filled: held.watches.filter((one) => one.filled).map((one) => one.watch),
  };
  nursery.integrate(frame, "", 0);
  return nursery;
}

rule("SYNC-1", "SYNC-3", "SYNC-4").test("every frame of held_frames.json leads from one held state to the next", () => {
  const { cases } = vectors<{ cases: { before: Held; frame: Sync; after: Held }[] }>("held_frames");
  const usable = cases.filter((one) => one.before.wanted.length === 0);
  assert.ok(usable.length > 20);
  for (const [index, { before, frame, after }] of usable.entries()) {
    const nursery = holding(before);
    nursery.integrate(frame, "", 0);
    assert.equal(nursery.to, after.to);
    for (const one of after.entities) assertSame(nursery.value(one.branch, one.id), one.value, `case ${index}, ${one.id}`);
    for (const { watch, ids, filled } of after.watches) {
      assert.deepEqual([...nursery.members(watch)].sort(), ids);
      assert.equal(nursery.isFilled(watch), filled);
    }
    assert.deepEqual(wantedOf(nursery), after.wanted);
  }
});

rule("TS-4").test("a commit that is sent again is the same text, in its own session and in another", () => {
  const content = '{"operations":[{"op":"set","id":"urn:x:1","body":{"n":9007199254740993,"f":1.50,"10":1,"2":2}}]}';
  const pending = restored({ session: "AAAA", local: 3 }, "bm9uY2U=", content);
  assert.ok(messageOf(pending, "AAAA").includes(`"content":${content}}`), "no field, no digit and no order is changed");
  const elsewhere = parse(messageOf(pending, "BBBB")) as { session: string; local: number };
  assert.deepEqual([elsewhere.session, elsewhere.local], ["AAAA", 3]);
});

rule("TS-3", "NURSERY-5").test("a verdict with another request digest confirms nothing", () => {
  const nursery = new Nursery();
  nursery.add(restored({ session: "AAAA", local: 1 }, "bm9uY2U=", '{"operations":[{"op":"set","id":"urn:x:1","body":1}]}'));
  const verdict = {
    verdict: "accepted", local: 1, version: 1, time: 1, hash: "b3:x", request: "b3:another", hashes: ["b3:y"], salts: ["AA=="],
  } as const;
  const frame: Sync = { type: "sync", from: 0, to: 1, hash: "b3:x", verdicts: [verdict] };
  assert.ok(nursery.isBlindTo(frame, "AAAA"), "facts may have been left out for a commit that is not this one");
  const done = nursery.integrate(frame, "AAAA", 1);
  assert.deepEqual([done.confirmed.length, done.strangers, nursery.size], [0, true, 1]);
});

const HELLO = '{"type":"hello","protocol":1,"server":"did:key:z","challenge":"AA==","limits":{"watches_max":3,"new_bound":1,"page_max":"x"},"features":["count"]}';
const OPEN = { type: "session.open", principal: "", session: "", signature: "", to: 2, hash: "b3:two" } as const;

rule("WIRE-4", "SYNC-1", "TS-11").test("what a server must not say ends the connection with one error", () => {
  const bad: [string, string][] = [
    ["{", "malformed"], ["[]", "unknown_message"], ["null", "unknown_message"], ['{"type":"hack"}', "unknown_message"], [HELLO, "out_of_order"],
    ['{"type":"sync","from":1,"to":3,"hash":"b3:x"}', "out_of_order"], ['{"type":"sync","from":2,"to":1,"hash":"b3:x"}', "out_of_order"],
    ['{"type":"sync","from":2,"to":2,"hash":"b3:other"}', "out_of_order"], ['{"type":"sync","from":2,"to":3,"hash":"b3:x","reset":"floor"}', "out_of_order"],
    ['{"type":"ok","id":77,"result":{}}', "out_of_order"], ["[".repeat(200_000), "malformed"], ['{"type":"sync","from":"2","to":3}', "out_of_order"],
    ['{"type":"goodbye","code":"never_heard_of","message":"x"}', "internal"],
  ];
  for (const [text, code] of bad) {
    const connection = new Connection();
    assert.equal(connection.receive(HELLO)?.kind, "hello");
    assert.deepEqual([connection.limits.watches_max, connection.limits.page_max, connection.features.has("count")], [3, 1000, true]);
    connection.open(OPEN);
    const event = connection.receive(text);
    assert.equal(event?.kind, "closed", text.slice(0, 80));
    assert.equal(event?.kind === "closed" && event.error.code, code, text.slice(0, 80));
    assert.equal(connection.receive('{"type":"sync","from":2,"to":3,"hash":"b3:x"}'), undefined, "nothing more of it is taken");
  }
  assert.equal(new Connection().receive(new ArrayBuffer(3))?.kind, "closed");
});

rule("SYNC-1").test("a frame in parts counts once the last part is there, and its commits are joined", () => {
  const connection = new Connection();
  connection.receive(HELLO);
  connection.open({ ...OPEN, to: 0, hash: undefined as unknown as string });
  const head = '"type":"sync","from":0,"to":2,"hash":"b3:x"';
  const commit = (index: number): string => `{"version":2,"author":"a","time":1,"facts":[{"index":${index},"id":"urn:x","kind":"set","parent":"b3:p","body":${index}}]}`;
  assert.equal(connection.receive(`{${head},"commits":[${commit(0)}],"more":true}`), undefined);
  const event = connection.receive(`{${head},"commits":[${commit(1)}],"filled":[1]}`);
  assert.ok(event?.kind === "frame");
  assert.deepEqual([event.frame.commits?.length, event.frame.commits?.[0]?.facts.length, event.frame.filled], [1, 2, [1]]);
  const parts = new Connection();
  parts.receive(HELLO);
  parts.open({ ...OPEN, to: 0, hash: undefined as unknown as string });
  parts.receive(`{${head},"more":true}`);
  assert.equal(parts.receive('{"type":"sync","from":0,"to":3,"hash":"b3:x"}')?.kind, "closed", "another frame came between");
});

rule("NURSERY-6").test("a value that only changes its object is not reported, and unchanged values stay the same object", () => {
  const nursery = new Nursery();
  const watcher = new Watcher(1, { roots: [{ id: "urn:*" }] });
  nursery.watch(1, new Membership("main", [], ["urn:"]), watcher);
  const entered = (id: string, hash: string, body: Json) => ({ watch: 1, branch: "main", id, version: 1, hash, body });
  nursery.integrate({ type: "sync", from: 0, to: 1, hash: "b3:1", entered: [entered("urn:a", "b3:a", { x: 1 }), entered("urn:b", "b3:b", { y: 1 })], filled: [1] }, "", 0);
  watcher.take(nursery);
  const before = watcher.published;
  const b = before.get("urn:b");
  nursery.integrate({ type: "sync", from: 1, to: 2, hash: "b3:2", entered: [entered("urn:a", "b3:c", { x: 1 })] }, "", 0);
  assert.equal(watcher.take(nursery), undefined);
  assert.equal(watcher.published, before);
  nursery.integrate({ type: "sync", from: 2, to: 3, hash: "b3:3", entered: [entered("urn:a", "b3:d", { x: 2 })] }, "", 0);
  assert.deepEqual([...watcher.take(nursery)!.updated.keys()], ["urn:a"]);
  assert.notEqual(watcher.published, before);
  assert.equal(watcher.published.get("urn:b"), b);
  assert.deepEqual(before.get("urn:a"), { x: 1 }, "a snapshot never changes");
  assert.equal(nursery.value("main", "urn:zzz"), ABSENT, "a filled watch says what is not there");
  assert.equal(stringify([...watcher.published.keys()]), '["urn:a","urn:b"]');
});

rule("WIRE-2", "WIRE-4", "TS-6").test("the client reads every conversation of transcripts.json, and signs as it was signed", async () => {
  const { cases } = vectors<{ cases: { title: string; subprotocol: string; lines: { from: string; json: { [key: string]: Json } }[] }[] }>("transcripts");
  const alice = await identityFromSeed(Uint8Array.from(createHash("sha256").update("alice").digest()));
  const spoken = cases.filter((one) => one.subprotocol === "stemma.v1.json");
  assert.equal(spoken.length, 3);
  for (const { title, lines } of spoken) {
    let connection = new Connection();
    let hello: { [key: string]: Json } = {};
    for (const { from, json } of lines) {
      if (json["type"] === "hello") [connection, hello] = [new Connection(), json];
      if (from === "server") assert.notEqual(connection.receive(stringify(json))?.kind, "closed", `${title}: ${stringify(json)}`);
      else if (json["type"] === "session.open") {
        const bytes = (name: string, of: { [key: string]: Json }): Uint8Array => fromBase64(of[name] as string);
        const payload = encode(["stemma.v1 session.open", hello["server"]!, bytes("challenge", hello), json["space"]!, alice.did, bytes("session", json)]);
        assert.equal(toBase64(await alice.sign(payload)), json["signature"], title);
        connection.open(json as unknown as SessionOpen);
      } else if (json["type"] !== "commit") assert.equal(connection.request(json as { type: string }).id, json["id"]);
    }
  }
});

rule("NURSERY-1", "NURSERY-2").test("an entity on two branches is two, and a view stays as it was when one enters in doubt", () => {
  const nursery = new Nursery();
  const watchers = new Map(["main", "draft"].map((branch, index) => [branch, new Watcher(index + 1, { roots: [{ id: "urn:*" }], branch })]));
  for (const [branch, watcher] of watchers) nursery.watch(watcher.number, new Membership(branch, [], ["urn:"]), watcher);
  const entered = (watch: number, branch: string, id: string, body?: Json) => ({ watch, branch, id, version: 1, hash: "b3:a", ...(body === undefined ? {} : { body }) });
  nursery.integrate({ type: "sync", from: 0, to: 1, hash: "b3:1", entered: [entered(1, "main", "urn:a", 1), entered(2, "draft", "urn:a", 2), entered(2, "draft", "urn:b", 3)], filled: [1, 2] }, "", 0);
  const shown = (branch: string): unknown[] => (watchers.get(branch)!.take(nursery), [...watchers.get(branch)!.published]);
  assert.deepEqual([shown("main"), shown("draft")], [[["urn:a", 1]], [["urn:a", 2], ["urn:b", 3]]]);
  const views = ["main", "draft"].map((branch) => nursery.view(branch));
  assert.deepEqual(views.map((view) => [...view.listing("urn:")!.keys()]), [["urn:a"], ["urn:a", "urn:b"]]);
  nursery.integrate({ type: "sync", from: 1, to: 2, hash: "b3:2", entered: [entered(1, "main", "urn:b")], left: [{ watch: 2, branch: "draft", id: "urn:a" }] }, "", 0);
  assert.deepEqual(wantedOf(nursery), ["main urn:b"], "it came without a value");
  assert.equal(views[0]!.shown("urn:b")?.value, ABSENT);
  assert.deepEqual(views.map((view) => [...view.listing("urn:")!.keys()]), [["urn:a"], ["urn:a", "urn:b"]]);
  assert.deepEqual([nursery.value("main", "urn:a"), nursery.value("draft", "urn:a"), nursery.value("main", "urn:b")], [1, ABSENT, UNKNOWN]);
  assert.deepEqual(shown("draft"), [["urn:b", 3]]);
});
