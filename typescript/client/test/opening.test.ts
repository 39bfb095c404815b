import assert from "node:assert/strict";
import { beforeEach, mock } from "node:test";
import type { StemmaError } from "../src/errors.ts";
import { rule } from "./support/rules.ts";

// Node has neither pages nor IndexedDB: the page is an EventTarget, and the browser answers an opening when a test says so.
const page = new EventTarget();
for (const name of ["addEventListener", "removeEventListener"] as const) Object.assign(globalThis, { [name]: page[name].bind(page) });
const { OPEN_MS, opened } = await import("../src/journal/opening.ts");

class Request {
  result = { isClosed: false, close: () => void (this.result.isClosed = true) };
  transaction: { abort(): void } | null = null;
  isAborted = false;
  onupgradeneeded!: () => void;
  onsuccess!: () => void;
  onblocked!: () => void;

  upgrade(): void {
    this.transaction = { abort: () => void (this.isAborted = true) };
    this.onupgradeneeded();
  }
}

const requests: Request[] = [];
Object.assign(globalThis, { indexedDB: { open: () => (requests.push(new Request()), requests.at(-1)) } });
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
  requests.length = 0;
});

const failure = (opening: Promise<unknown>): Promise<StemmaError> => opening.then(() => assert.fail("it opened"), (error: StemmaError) => error);

rule("TS-12").test("an opening that is not answered ends with one error, and what comes late is closed", async () => {
  for (const isBlocked of [false, true]) {
    const failed = failure(opened("d", 1, () => {}));
    const request = requests.at(-1)!;
    if (isBlocked) request.onblocked();
    mock.timers.tick(OPEN_MS);
    const error = await failed;
    assert.equal(error.code, "journal_failed");
    assert.match(error.message, isBlocked ? /'d': another tab holds an older version of it\. Close the other tabs/ : /'d': it has not answered within 10 seconds\. Close/);
    request.upgrade();
    assert.ok(request.isAborted, "nobody waits for that upgrade");
    request.onsuccess();
    assert.ok(request.result.isClosed);
  }
});

rule("TS-12").test("a blocked opening goes on when the other tab lets go", async () => {
  const opening = opened("d", 1, () => {});
  requests[0]!.onblocked();
  mock.timers.tick(OPEN_MS - 1);
  requests[0]!.upgrade();
  requests[0]!.onsuccess();
  assert.equal(await opening, requests[0]!.result);
  mock.timers.tick(OPEN_MS);
  page.dispatchEvent(new Event("pagehide"));
  assert.ok(!requests[0]!.isAborted && !requests[0]!.result.isClosed);
  page.dispatchEvent(new Event("pageshow"));
});

rule("TS-12").test("a page that is left gives its upgrade up, waits without a bound, and opens again when it is shown", async () => {
  const opening = opened("d", 1, () => {});
  requests[0]!.upgrade();
  page.dispatchEvent(new Event("pagehide"));
  assert.ok(requests[0]!.isAborted);
  await turn();
  mock.timers.tick(10 * OPEN_MS);
  assert.equal(requests.length, 1, "a page that is away opens nothing");
  page.dispatchEvent(new Event("pageshow"));
  await turn();
  requests[1]!.onsuccess();
  assert.equal(await opening, requests[1]!.result);
});

rule("TS-12").test("a page is not kept while it opens a database", async () => {
  const unloads: string[] = [];
  const counted = (name: "addEventListener" | "removeEventListener", mark: string): void => {
    const given = globalThis[name];
    mock.method(globalThis, name, (type: string, ...rest: [EventListener]) => (type === "unload" && unloads.push(mark), given(type, ...rest)));
  };
  counted("addEventListener", "on");
  counted("removeEventListener", "off");
  const opening = opened("d", 1, () => {});
  assert.deepEqual(unloads, ["on"]);
  requests[0]!.onsuccess();
  await opening;
  assert.deepEqual(unloads, ["on", "off"]);
  mock.restoreAll();
});

rule("TS-12").test("an upgrade that throws is the error of the opening", async () => {
  const failed = failure(opened("d", 1, () => {
    throw new Error("no such thing");
  }));
  requests[0]!.upgrade();
  assert.equal((await failed).message, "no such thing");
  assert.ok(requests[0]!.isAborted);
});
