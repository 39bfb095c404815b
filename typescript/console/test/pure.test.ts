// What the console decides without a page: addresses, texts, layouts, the axis, the picture, resolutions.
import assert from "node:assert/strict";
import { test } from "node:test";
import { apply } from "../../client/src/patch/apply.ts";
import { equal as sameJson, parse as fromText } from "../../client/src/values/json.ts";
import { rule } from "../../client/test/support/rules.ts";
import { type Address, HEAD, isDid, markOf, parse, parseAt, parseSide, write, writeAt } from "../src/address.ts";
import { Latest } from "../src/data/latest.ts";
import { Patience } from "../src/data/patience.ts";
import type { Json } from "@stemmadb/client";
import { picture } from "../src/screens/picture.ts";
import { keyOf, resolved } from "../src/screens/resolutions.ts";
import { Axis } from "../src/shell/axis.ts";
import { ago, cut, inLine, visible } from "../src/text.ts";
import { cell, columns, compare, editable, isLink, linkOf, lines, noteText, withPart } from "../src/values.ts";

const DID = "did:key:z6MkTest";

rule("CONSOLE-1").test("an address means the same after it was written and read", () => {
  const names = ["main", "..", "draft", "a/b?c&d=e#f", "ü⟨", "@90@"];
  const moments = ["head", "184", "184.hieglpwai6m4", "tag:v1", "tag:a@b/c?d", "2026-11-12T14:03:00Z", "2026-11-12T14:03:00+02:00"];
  for (const branch of names) {
    for (const at of moments) {
      const address: Address = { did: DID, screen: "entity", branch, at: parseAt(at), params: { id: "urn:todo:1/history", path: "/a~1b/0", tab: "blame" } };
      const [path, search] = write(address).split("?") as [string, string];
      assert.deepEqual({ ...parse(path, search), params: { ...parse(path, search)!.params } }, address);
    }
  }
  assert.equal(parse("/console", ""), undefined);
  assert.equal(parse("/console/pair", ""), undefined);
  assert.equal(parse(`/console/${DID}/nonsense`, "")!.screen, "entities");
  assert.equal(parse(`/console/${DID}/entities`, "?prefix=a&prefix=b")!.params["prefix"], "a");
});

rule("CONSOLE-1").test("only the did:key of a space names one", () => {
  assert.ok(isDid("did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"));
  for (const text of ["", "todo", "did:web:x", "did:key:zzzz", "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooW0", " did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"]) assert.ok(!isDid(text), text);
});

rule("CONSOLE-1").test("moments that cannot be read are not taken for others", () => {
  for (const text of ["1e3", "-1", "184.", "184.HIEGLPWAI6M4", "2026-11-12", "2026-11-12T14:03:00", "main", "99999999999999999"]) assert.equal(parseAt(text).kind, "unreadable", text);
  assert.deepEqual(parseAt(""), HEAD);
  assert.equal(writeAt(parseAt("184.hieglpwai6m4")), "184.hieglpwai6m4");
  assert.equal(markOf("b3:hieglpwai6m4yyyyyyyy"), "hieglpwai6m4");
  assert.deepEqual(parseSide("a@b@90"), { branch: "a@b", at: { kind: "version", version: 90 } });
  assert.deepEqual(parseSide("draft"), { branch: "draft", at: HEAD });
  assert.deepEqual(parseSide("draft@tag:v1"), { branch: "draft", at: { kind: "tag", name: "v1" } });
});

rule("CONSOLE-5").test("what is invisible or changes the direction of text is written out", () => {
  assert.equal(visible("a\u202eb\u2066c\u200f"), "a⟨U+202E⟩b⟨U+2066⟩c⟨U+200F⟩");
  assert.equal(visible("\u0000\u001b[31m\u007f\u0085"), "⟨U+0000⟩⟨U+001B⟩[31m⟨U+007F⟩⟨U+0085⟩");
  assert.equal(visible("\ufeff\u200b\u00ad\u2028"), "⟨U+FEFF⟩⟨U+200B⟩⟨U+00AD⟩⟨U+2028⟩");
  assert.equal(visible("\u{e0041}"), "⟨U+E0041⟩");
  assert.equal(visible("\ud800x"), "⟨U+D800⟩x");
  assert.equal(visible("plain — ünïcode 日本 😀\n\ttwo"), "plain — ünïcode 日本 😀\n\ttwo");
  assert.equal(inLine("a\nb\tc"), "a⏎b⇥c");
  assert.equal(cut("😀😀", 3), "😀… (4 characters)");
  assert.ok(inLine("x".repeat(8 * 1024 * 1024)).length < 300);
});

test("a value as lines: keys in their order, closed parts, what is too much is counted", () => {
  const value = JSON.parse('{"b": [1, {"__proto__": "x"}], "a": {}, "n": null}') as Json;
  const all = lines(value, () => false);
  assert.deepEqual(all.map((one) => [one.path, one.depth, one.kind]), [["", 0, "object"], ["/b", 1, "array"], ["/b/0", 2, "number"], ["/b/1", 2, "object"], ["/b/1/__proto__", 3, "string"], ["/b/1", 2, "close"], ["/b", 1, "close"], ["/a", 1, "object"], ["/n", 1, "null"], ["", 0, "close"]]);
  assert.equal(lines(value, (path) => path === "/b").length, 5);
  const many = lines(Array.from({ length: 1_000_000 }, (_, at) => at), () => false);
  assert.equal(many.length, 503);
  assert.equal(many[501]!.size, 999_500);
  let deep: Json = 1;
  for (let at = 0; at < 64; at += 1) deep = [deep];
  assert.equal(lines(deep, () => false).length, 129);
});

rule("CONSOLE-5").test("a value to be edited means the same after it was read again, and hides nothing", () => {
  for (const text of ['{"n":9007199254740993}', '{"float":1e+20}', '{"__proto__":{"x":1}}', '{"s":"a\u202eb\\u0000\u{e0041}"}', '"1e5"', '[[[]]]', '{"deep":[1,{"a":null}]}']) {
    const shown = editable(fromText(text));
    assert.ok(sameJson(fromText(shown), fromText(text)), shown);
    assert.equal(visible(shown), shown, text);
  }
  assert.equal(editable({ a: 1 }), '{\n  "a": 1\n}');
});

test("two values beside each other", () => {
  const left = { title: "a", done: false, gone: 1, list: [1, 2, 3], same: { x: 1 } };
  const right = { title: "b", done: false, list: [1, 9, 3, 4], same: { x: 1 }, added: null };
  const rows = compare(left, right);
  const marked = rows.filter((row) => row.mark !== "same").map((row) => [row.mark, row.left, row.right]);
  assert.deepEqual(marked, [["changed", '"title": "a"', '"title": "b"'], ["removed", '"gone": 1', undefined], ["changed", "2", "9"], ["changed", "3", "3"], ["added", undefined, "4"], ["added", undefined, '"added": null']].filter((row) => row[1] !== row[2]));
  assert.ok(compare(undefined, left).every((row) => row.mark === "added"));
  assert.ok(compare(left, undefined).every((row) => row.mark === "removed"));
  assert.ok(compare(left, { ...left }).every((row) => row.mark === "same"));
  assert.deepEqual(compare(1, "1").map((row) => row.mark), ["changed"]);
  assert.deepEqual(compare([1, 2, 3], [0, 1, 2, 3]).map((row) => row.mark), ["same", "added", "same", "same", "same", "same"]);
});

test("columns are what most rows have, in the order they first appear", () => {
  const rows: Json[] = [{ a: 1, b: 2 }, { b: 2, a: 1, c: 3 }, { b: 2 }, 7, null];
  assert.deepEqual(columns(rows, 2), ["a", "b"]);
  assert.deepEqual(columns(rows, 9), ["a", "b", "c"]);
  assert.deepEqual(columns([], 3), []);
});

rule("QUERY-2").test("a sigil link is one line and one cell; what only looks like one stays JSON", () => {
  const link = { "/": { "link@1": { id: "urn:user:1" } } };
  assert.equal(linkOf(link), "urn:user:1");
  assert.equal(cell(link), "→ urn:user:1");
  assert.deepEqual(lines({ by: link, n: 1 }, () => false).map((one) => [one.path, one.kind]), [["", "object"], ["/by", "link"], ["/n", "number"], ["", "close"]]);
  for (const other of [{ "/": { "link@1": { id: "urn:a", space: "did:key:z6Mk" } } }, { "/": { "link@1": { id: 1 } } }, { "/": { "link@1": {} } }, { "/": { "link@1": { id: "urn:a" } }, more: 1 }, { "/": "link@1" }, null, [], "urn:user:1"] as Json[]) assert.equal(linkOf(other), undefined, JSON.stringify(other));
});

test("links, notes and times", () => {
  for (const text of ["urn:todo:1", "did:key:z6Mk"]) assert.ok(isLink(text));
  for (const text of ["javascript:alert(1)", "https://example.org", "urn:a b", "urn:", "data:text/html,x"]) assert.ok(!isLink(text), text);
  assert.equal(noteText({ message: "why" }), "why");
  assert.equal(noteText({ message: 1 }), '{"message":1}');
  assert.equal(noteText(undefined), "");
  assert.equal(ago(0, 59_000), "now");
  assert.equal(ago(0, 3 * 3_600_000), "3h ago");
});

rule("CONSOLE-7").test("the axis: every version has a place, and the place leads back to it", () => {
  const buckets = [{ from_version: 1, to_version: 10, from_time: 1_000, to_time: 2_000, commits: 10 }, { from_version: 11, to_version: 100, from_time: 500_000, to_time: 500_900, commits: 90 }];
  const byVersion = new Axis(buckets, false, 100);
  for (let version = 1; version <= 100; version += 1) assert.equal(byVersion.version(byVersion.place(version)), version);
  const byTime = new Axis(buckets, true, 100);
  for (const version of [1, 10, 11, 55, 100]) assert.equal(byTime.version(byTime.place(version)), version);
  assert.equal(byTime.version(0.5), 10, "between two buckets it is the last version before");
  for (const head of [0, 1]) assert.equal(new Axis([], false, head).version(1), 1);
  assert.equal(byVersion.place(1_000), 1);
});

rule("CONSOLE-6").test("the picture of branches is made of structural commits and heads", () => {
  const commit = (version: number, kind: string, branch: string | undefined, about: object) => ({ version, kind, branch, arguments: { kind, ...about }, author: "", time: 0 }) as never;
  const branches = [{ name: "draft", parent: "main", fork: 5, head: 40 }, { name: "main", fork: 0, head: 1_000_000 }, { name: "old", parent: "main", fork: 2, head: 4, deleted: 9 }];
  const { points, lanes } = picture(branches, [commit(6, "branch.create", undefined, { name: "draft", parent: "main", fork: 5 }), commit(30, "merge", "main", { source: "draft" })]);
  assert.deepEqual(points.map((one) => [one.version, one.branch, one.what]), [[1_000_000, "main", "head"], [40, "draft", "head"], [30, "main", "merge"], [6, "draft", "fork"], [4, "old", "head"], [2, "old", "fork"]]);
  assert.deepEqual([...lanes], [["main", 0], ["draft", 1], ["old", 2]]);
  const many = Array.from({ length: 1_000 }, (_, at) => ({ name: `b${at}`, parent: "main", fork: at + 1, head: at + 2 }));
  assert.ok(picture(many, []).points.every((one) => one.lane <= 12));
});

test("a resolution is the merged value with each chosen side at its path", () => {
  const sides = { base: { t: 0, v: 0, k: 1 }, source: { t: 1, v: 1, k: 1, s: true }, target: { t: 2, v: 2, k: 1 } };
  const conflicts = [{ id: "x", path: "/t", source: 3, target: 4, winner: "target" }, { id: "x", path: "/v", source: 3, target: 4, winner: "target" }, { id: "y", source: 3, target: 4, winner: "target" }] as const;
  const write = { id: "x", kind: "patch", body: [{ op: "add", path: "/s", value: true }] } as const;
  const choose = (t: "base" | "source" | "target", v: "base" | "source" | "target") => resolved("x", sides, write, conflicts, new Map([[keyOf(conflicts[0]), t], [keyOf(conflicts[1]), v]]));
  assert.deepEqual(choose("source", "target"), { id: "x", body: { t: 1, v: 2, k: 1, s: true } });
  assert.deepEqual(choose("base", "source"), { id: "x", body: { t: 0, v: 1, k: 1, s: true } });
  assert.deepEqual(resolved("y", { base: 1, source: undefined, target: 2 }, undefined, conflicts, new Map([[keyOf(conflicts[2]), "source"]])), { id: "y" });
  assert.deepEqual(withPart({ a: [1, 2, 3] }, ["a", "1"], undefined), { a: [1, 3] });
  assert.deepEqual(withPart(undefined, ["a", "b"], 1), { a: { b: 1 } });
  assert.deepEqual(Object.keys(withPart({ a: 1, b: 2 }, ["a"], 3) as object), ["a", "b"]);
  assert.deepEqual(apply({ a: 1 }, []), { a: 1 });
});

rule("CONSOLE-7").test("one question at a time: of those wanted meanwhile only the last is asked", async () => {
  const asked: number[] = [];
  const shown: unknown[] = [];
  const gates: (() => void)[] = [];
  const latest = new Latest<number>((answer) => shown.push(answer.data ?? String(answer.error)));
  const want = (n: number): void => latest.want(String(n), async () => {
    asked.push(n);
    await new Promise<void>((resolve) => gates.push(resolve));
    if (n === 9) throw new Error("no");
    return n;
  });
  for (const n of [1, 2, 3, 4]) want(n);
  assert.deepEqual(asked, [1]);
  gates[0]!();
  await new Promise(setImmediate);
  assert.deepEqual([asked, shown], [[1, 4], [1]]);
  want(9);
  gates[1]!();
  await new Promise(setImmediate);
  gates[2]!();
  await new Promise(setImmediate);
  assert.deepEqual([asked, shown], [[1, 4, 9], [1, 4, "Error: no"]]);
  want(5);
  latest.close();
  gates[3]!();
  await new Promise(setImmediate);
  assert.deepEqual(shown.length, 3);
});

rule("CONSOLE-7").test("what looks at much waits for what brings rows, one after the other, and not for ever", async () => {
  const patience = new Patience();
  const asked: string[] = [];
  const gates = new Map<string, () => void>();
  const gated = (name: string) => (): Promise<string> => {
    asked.push(name);
    return new Promise((resolve) => gates.set(name, () => resolve(name)));
  };
  const bars = patience.later(gated("bars"));
  const count = patience.later(gated("count"));
  const rows = patience.now(gated("rows"));
  await until(() => asked.length > 0);
  assert.deepEqual(asked, ["rows"], "asked at once, though it came last");
  gates.get("rows")!();
  await rows;
  await until(() => asked.length > 1);
  assert.deepEqual(asked, ["rows", "bars"]);
  gates.get("bars")!();
  assert.equal(await bars, "bars");
  const stream = patience.now(gated("stream"));
  await until(() => asked.length > 3);
  assert.deepEqual(asked, ["rows", "bars", "stream", "count"], "in a stream of questions it is asked after a while");
  gates.get("count")!();
  gates.get("stream")!();
  await Promise.all([count, stream]);
  await assert.rejects(patience.later(() => Promise.reject(new Error("no"))), /no/);
  assert.equal(await patience.later(() => Promise.resolve("after a failure")), "after a failure");
});

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}
