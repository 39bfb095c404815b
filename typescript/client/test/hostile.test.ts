// A server that means harm, or is broken: bounded time and memory, one clear error, and nothing half done.
import assert from "node:assert/strict";
import { Membership } from "../src/nursery/confirmed.ts";
import { Nursery } from "../src/nursery/nursery.ts";
import { fetchQuery } from "../src/reading/fetch.ts";
import { bounded, Requests } from "../src/session/requests.ts";
import { equal, type Json, parse } from "../src/values/json.ts";
import { Watcher } from "../src/watching/watcher.ts";
import { Connection, type Event } from "../src/wire/connection.ts";
import type { Sync } from "../src/wire/messages.ts";
import { rule } from "./support/rules.ts";

const HELLO = '{"type":"hello","protocol":1,"server":"did:key:z","challenge":"AA==","limits":{"watches_max":9007199254740993,"constructor":5},"unheard_of":{}}';
const HEAD = '"type":"sync","from":0,"to":1,"hash":"b3:x"';

/** What a connection that has just been opened makes of a message. */
function said(text: string): Event | undefined {
  const connection = new Connection();
  connection.receive(HELLO);
  assert.equal(connection.limits.watches_max, 256, "a bound that is no number is not taken");
  assert.ok(!Object.hasOwn(connection.limits, "constructor"));
  connection.open({ type: "session.open", principal: "", session: "", signature: "" });
  return connection.receive(text);
}

rule("WIRE-4", "TS-11").test("a frame with a part that is not as it must be is refused before any of it is applied", () => {
  const bad: [string, string][] = [
    ['"entered":5', "/entered"], ['"entered":[null]', "/entered/watch"], ['"entered":[{"watch":1,"branch":"main","id":7,"version":1,"hash":"b3:a"}]', "/entered/id"],
    ['"entered":[{"watch":1,"branch":"main","id":"urn:x","version":9007199254740993,"hash":"b3:a"}]', "/entered/version"],
    ['"commits":{"0":1}', "/commits"], ['"commits":[{"version":1,"facts":{}}]', "/commits/facts"], ['"commits":[{"version":1,"facts":[{"id":1}]}]', "/commits/facts/id"],
    ['"verdicts":[{"verdict":"accepted","local":1}]', "/verdicts/version"], ['"verdicts":[{"verdict":"rejected"}]', "/verdicts/local"],
    ['"verdicts":[{"verdict":"accepted","local":1,"version":1,"hash":"","request":"","hashes":null,"salts":[]}]', "/verdicts/hashes"],
    ['"left":[{}]', "/left/watch"], ['"filled":[1,"2"]', "/filled"], ['"ended":"all"', "/ended"], ['"kept":[{"local":1}]', "/kept/version"],
  ];
  for (const [fields, path] of bad) {
    const event = said(`{${HEAD},${fields}}`);
    assert.equal(event?.kind, "closed", fields);
    assert.deepEqual(event?.kind === "closed" && [event.error.code, event.error.details["path"]], ["malformed", path]);
  }
});

rule("WIRE-4").test("fields and codes that are not known change nothing", () => {
  const entered = '{"watch":1,"branch":"main","id":"urn:x","version":1,"hash":"b3:a","body":1,"colour":"red"}';
  assert.equal(said(`{${HEAD},"entered":[${entered}],"weather":[1],"__proto__":{"more":true}}`)?.kind, "frame");
  for (const code of ["constructor", "__proto__", "toString", "new_code"]) {
    const event = said(`{"type":"goodbye","code":"${code}","message":"bye"}`);
    assert.equal(event?.kind === "closed" && event.error.code, "internal", code);
  }
});

rule("TS-11").test("a body that is nested 100,000 times is held, shown and compared in bounded time", () => {
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  const event = said(`{${HEAD},"entered":[{"watch":1,"branch":"main","id":"urn:x","version":1,"hash":"b3:a","body":${deep}}],"filled":[1]}`);
  assert.ok(event?.kind === "frame");
  const nursery = new Nursery();
  const watcher = new Watcher(1, { roots: [{ id: "urn:*" }] });
  nursery.watch(1, new Membership("main", [], ["urn:"]), watcher);
  nursery.integrate(event.frame, "", 0);
  assert.equal(watcher.take(nursery)?.entered.size, 1);
  const [{ body, ...rest }] = event.frame.entered as [{ body: Json; watch: number; branch: string; id: string; version: number; hash: string }];
  nursery.integrate({ type: "sync", from: 1, to: 2, hash: "b3:y", entered: [{ ...rest, hash: "b3:b", body: parse(deep) }] }, "", 0);
  assert.equal(watcher.take(nursery), undefined, "an equal value is no change");
  assert.ok(equal(body, parse(deep)));
});

rule("TS-11", "SYNC-4").test("huge numbers and counts cost what was sent, not what they say", () => {
  const nursery = new Nursery();
  const watcher = new Watcher(1, { roots: [{ id: "urn:*" }] });
  nursery.watch(1, new Membership("main", [], ["urn:"]), watcher);
  const most = Number.MAX_SAFE_INTEGER;
  const event = said(`{"type":"sync","from":0,"to":${most},"hash":"b3:x","filled":[${most},1],"left":[{"watch":${most},"branch":"main","id":"urn:x"}],
    "verdicts":[{"verdict":"rejected","local":${most},"code":"conflict","message":"no"}],"kept":[{"local":${most},"version":${most},"hash":"b3:h"}]}`);
  assert.ok(event?.kind === "frame");
  const done = nursery.integrate(event.frame, "", 0);
  assert.deepEqual([done.refused, done.strangers, nursery.to, watcher.take(nursery)?.entered.size], [[], true, most, 0]);
  assert.deepEqual([1e300, Infinity, NaN, -5, 250].map(bounded), [3_600_000, 3_600_000, 0, 0, 250], "a timer takes more than 2^31 ms for none");
});

rule("WIRE-4", "SYNC-1").test("parts of a frame without an end are refused once they are too large together", () => {
  const connection = new Connection();
  connection.receive(HELLO);
  connection.open({ type: "session.open", principal: "", session: "", signature: "" });
  const part = `{${HEAD},"more":true}`.padEnd(64 * 1024 * 1024);
  for (let count = 0; count < 8; count += 1) assert.equal(connection.receive(part), undefined);
  const event = connection.receive(part);
  assert.equal(event?.kind === "closed" && event.error.code, "out_of_order");
});

/** What a query comes to whose pages the server answers so; how often it was asked. */
async function asked(page: (number: number) => object): Promise<[string, number]> {
  const [requests, connection] = [new Requests(60_000), new Connection()];
  connection.receive(HELLO);
  connection.open({ type: "session.open", principal: "", session: "", signature: "" });
  let count = 0;
  requests.open(connection, (text) => {
    const { id } = JSON.parse(text) as { id: number };
    queueMicrotask(() => requests.answered(id, page((count += 1))));
    return true;
  });
  const found = fetchQuery(requests, { roots: [{ id: "urn:*" }] });
  return [await found.then(({ entities }) => `${entities.size}`, (error: { code: string }) => error.code), count];
}

rule("TS-11", "WIRE-4").test("pages without an end, and pages of several versions, end a query with one error", async () => {
  const until = (number: number, last: number) => (number < last ? { next: "more" } : {}); // so that a client without a bound fails soon
  const one = (number: number) => ({ id: `urn:${number}`, version: 1, hash: "b3:a", body: number });
  assert.deepEqual(await asked((n) => ({ version: 5, entities: [one(n)], ...until(n, 200) })), ["200", 200]);
  assert.deepEqual(await asked((n) => ({ version: 5, ...until(n, 1_000) })), ["malformed", 65]);
  assert.deepEqual(await asked((n) => ({ version: 5, entities: [one(1)], ...until(n, 1_000) })), ["malformed", 66]);
  assert.deepEqual(await asked((n) => ({ version: n, entities: [one(n)], ...until(n, 1_000) })), ["malformed", 2]);
});

rule("SYNC-4").test("a fact with another parent is not applied: what it belongs to is asked for", () => {
  const nursery = new Nursery();
  const watcher = new Watcher(1, { roots: [{ id: "urn:*" }] });
  nursery.watch(1, new Membership("main", [], ["urn:"]), watcher);
  const frame = (from: number, more: Partial<Sync>): void => void nursery.integrate({ type: "sync", from, to: from + 1, hash: `b3:${from}`, ...more }, "", 0);
  frame(0, { entered: [{ watch: 1, branch: "main", id: "urn:x", version: 1, hash: "b3:a", body: { n: 1 } }], filled: [1] });
  watcher.take(nursery);
  const facts = [{ index: 0, id: "urn:x", kind: "patch", parent: "b3:another", body: [{ op: "replace", path: "/n", value: 2 }] }] as never;
  frame(1, { commits: [{ version: 2, author: "a", time: 1, branch: "main", facts }] as never });
  assert.deepEqual([...nursery.wanted()], ["urn:x"]);
  assert.equal(watcher.take(nursery), undefined, "nobody is shown a guess");
  assert.deepEqual(watcher.published.get("urn:x"), { n: 1 });
});
