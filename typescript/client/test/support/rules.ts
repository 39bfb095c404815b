// Tests name the rules of docs/spec that they prove: tests/spec reads `rule("TS-3")` in every *.test.ts.
import { test } from "node:test";

type Body = () => void | Promise<void>;

/** `rule("TS-3", "PATCH-1").test("what holds", () => ...)`; `skip` says why this platform cannot run it. */
export function rule(...ids: string[]): { test(name: string, body: Body, skip?: string | false): void } {
  return { test: (name, body, skip = false) => void test(`${name} (${ids.join(", ")})`, { skip }, body) };
}
