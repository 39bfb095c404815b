import assert from "node:assert/strict";
import { StemmaError } from "../src/errors.ts";
import { contentBytes } from "../src/nursery/pending.ts";
import { sortedIds } from "../src/nursery/view.ts";
import { apply } from "../src/patch/apply.ts";
import { diff } from "../src/patch/diff.ts";
import { footprint, type Footprint } from "../src/patch/footprint.ts";
import { fromBase64, fromReference, toReference } from "../src/values/bytes.ts";
import { emptyReference, factHash, requestDigest } from "../src/values/hashes.ts";
import { equal, type Json, parse, put, stringify, take } from "../src/values/json.ts";
import { encode } from "../src/values/msgpack.ts";
import type { CommitMessage } from "../src/wire/messages.ts";
import { rule } from "./support/rules.ts";
import { hex, toHex, vectors } from "./support/vectors.ts";

interface PatchCase {
  comment: string; value: Json; operations: Json[]; expected?: Json; error?: { index: number }; footprint: Footprint | null;
}

rule("PATCH-1", "PATCH-4").test("every patch vector gives its value, its failure and its footprint", () => {
  const { cases } = vectors<{ cases: PatchCase[] }>("patches");
  assert.ok(cases.length > 50);
  for (const one of cases) {
    const before = stringify(one.value);
    if (one.error !== undefined) {
      assert.throws(() => apply(one.value, one.operations), (error: StemmaError) => {
        assert.equal(error.code, "patch_failed", one.comment);
        assert.equal(error.details["patch_index"], one.error!.index, one.comment);
        return true;
      });
    } else assert.ok(equal(apply(one.value, one.operations), one.expected!), one.comment);
    assert.equal(stringify(one.value), before, "the old value is never changed");
    if (one.footprint === null) assert.throws(() => footprint(one.operations), StemmaError, one.comment);
    else assert.deepEqual(footprint(one.operations), one.footprint, one.comment);
  }
});

rule("PATCH-3").test("a difference leads to the other value", () => {
  const values: Json[] = vectors<{ cases: PatchCase[] }>("patches").cases.flatMap((one) => [one.value, one.expected ?? null]);
  for (const [index, value] of values.entries()) {
    const other = values[(index * 7 + 1) % values.length]!;
    assert.ok(equal(apply(value, diff(value, other)), other));
    assert.deepEqual(diff(value, value), []);
  }
});

rule("TS-3", "COMMIT-5").test("the digest of a commit is what the server computes of its JSON", () => {
  const { cases } = vectors<{ cases: { title: string; type: string; json: CommitMessage; json_same?: CommitMessage[]; request_digest_hex?: string }[] }>("messages");
  const commits = cases.filter((one) => one.type === "commit");
  assert.ok(commits.length >= 2);
  for (const one of commits) {
    for (const json of [one.json, ...(one.json_same ?? [])]) {
      const digest = requestDigest(fromBase64(json.nonce), contentBytes(json.content));
      assert.equal(toHex(fromReference(digest)), one.request_digest_hex, one.title);
    }
  }
});

rule("FACT-2", "FACT-4").test("hashes and references are those of the vectors", () => {
  const { cases } = vectors<{ cases: Record<string, string>[] }>("hashes");
  for (const one of cases.filter((each) => each["what"] === "empty")) {
    assert.equal(emptyReference(one["id"]!), one["reference"]);
    assert.equal(toReference(hex(one["hash"]!)), one["reference"]);
  }
  const facts = cases.filter((each) => each["what"] === "fact");
  assert.ok(facts.length > 1);
  for (const one of facts) {
    const salt = one["salt"] ? hex(one["salt"]) : null;
    const made = factHash(one["kind"]!, one["id"]!, toReference(hex(one["parent"]!)), salt, hex(one["body"] ?? ""));
    assert.equal(toHex(fromReference(made)), one["hash"]);
  }
});

rule("MODEL-4").test("the shortest msgpack of every body vector that is in its shortest form", () => {
  let same = 0;
  const { cases } = vectors<{ cases: { body: string; value?: Json }[] }>("bodies");
  for (const one of cases) if (one.value !== undefined && toHex(encode(one.value)) === one.body) same += 1;
  assert.ok(same > 10, `${same} alike`);
  const cuts: [Json, string][] = [
    [127, "7f"], [128, "cc80"], [65536, "ce00010000"], [4294967296, "cf0000000100000000"], [-33, "d0df"], [-129, "d1ff7f"],
    [-2147483649, "d3ffffffff7fffffff"], [9223372036854775807n, "cf7fffffffffffffff"], [0.5, "cb3fe0000000000000"], ["é", "a2c3a9"],
  ];
  for (const [value, bytes] of cuts) assert.equal(toHex(encode(value)), bytes);
});

rule("TS-2").test("integers beyond 2^53 are read as bigint and written back as they were", () => {
  for (const text of ["9007199254740993", "-9223372036854775808", '{"a":[9223372036854775807,1]}', '"1234567890123456"']) {
    assert.equal(stringify(parse(text)), text);
  }
  assert.equal(parse("9007199254740993"), 9007199254740993n);
  assert.equal(parse("1234567890123456.5"), 1234567890123456.5);
  assert.deepEqual(parse(' { "a" : [ 12345678901234567 , "x\\u00e9\\"" , null , { } , [ ] ] } '), { a: [12345678901234567n, 'xé"', null, {}, []] });
  for (const bad of ["[12345678901234567", "12345678901234567,", '{"a" 12345678901234567}', "99999999999999999999"]) {
    assert.throws(() => parse(bad), SyntaxError);
  }
  assert.throws(() => parse("[".repeat(100_000) + "1234567890123456"), SyntaxError, "bounded, however deep");
});

rule("TS-11").test("ids are in the order of code points, also beyond 16 bits", () => {
  assert.deepEqual(sortedIds(["urn:\u{1f600}", "urn:\uffe0", "urn:b", "urn:", "urn:a"]), ["urn:", "urn:a", "urn:b", "urn:\uffe0", "urn:\u{1f600}"]);
});

rule("TS-5").test("1.0 is 1, -0 is 0, and a number beyond 2^53 is a float", () => {
  assert.equal(stringify(take(-0, 64)), "0");
  assert.equal(stringify(parse("1.0")), "1");
  assert.equal(stringify(1e20), "1e+20");
  assert.equal(stringify(2 ** 60), "1.152921504606847e+18");
  assert.ok(equal(1n as Json, 1) && !equal(true, 1) && equal(2n ** 53n, 2 ** 53));
});

rule("TS-11").test("what is not JSON is refused with its path, and keys are only keys", () => {
  const cycle: { [key: string]: unknown } = {};
  cycle["self"] = [cycle];
  const refused: [unknown, string][] = [
    [{ a: [undefined] }, "/a/0"], [{ a: new Date() }, "/a"], [new Map(), ""], [cycle, "/self/0"], [{ "a/b": 2n ** 63n }, "/a~1b"],
    [{ x: "\ud800" }, "/x"], [[() => 0], "/0"], [{ n: NaN }, "/n"], [{ "\udc00": 1 }, ""], [new (class Todo {})(), ""],
  ];
  for (const [value, path] of refused) {
    assert.throws(() => take(value, 64), (error: StemmaError) => error.code === "invalid_value" && error.details["path"] === path);
  }
  const keys = parse('{"__proto__":{"x":1},"constructor":2,"10":3,"9":4}');
  assert.equal(stringify(take(keys, 64)), '{"9":4,"10":3,"__proto__":{"x":1},"constructor":2}');
  const patched = apply(keys, [{ op: "replace", path: "/__proto__/x", value: 5 }, { op: "add", path: "/toString", value: 6 }]);
  assert.equal(stringify(patched), '{"9":4,"10":3,"__proto__":{"x":5},"constructor":2,"toString":6}');
  assert.throws(() => apply({}, [{ op: "replace", path: "/constructor", value: 1 }]), StemmaError, "an inherited key is none");
  const object: Json = {};
  put(object as { [key: string]: Json }, "__proto__", { polluted: true });
  assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
});
