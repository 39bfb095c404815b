// What the pure core costs, in node and in a page: each measure is a line, milliseconds are the median of many rounds.
import { LIMITS } from "../client/src/constants.ts";
import { TransactionDraft } from "../client/src/drafting/draft.ts";
import { Membership } from "../client/src/nursery/confirmed.ts";
import { Nursery } from "../client/src/nursery/nursery.ts";
import { named } from "../client/src/nursery/pending.ts";
import { parse } from "../client/src/values/json.ts";
import { Watcher } from "../client/src/watching/watcher.ts";
import type { Entered, Sync } from "../client/src/wire/messages.ts";

const NONCE = "AAAAAAAAAAAAAAAAAAAAAA==";
const HASH = "b3:" + "a".repeat(52);
const MANY = 10_000;

interface Held {
  readonly nursery: Nursery;
  readonly watcher: Watcher;
}

/** The medians of acts that take turns, so that what else the machine does meets all of them alike. */
function medians(rounds: number, ...acts: ((round: number) => void)[]): string[] {
  const times = acts.map(() => [] as number[]);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, act] of acts.entries()) {
      const began = performance.now();
      act(round);
      times[index]!.push(performance.now() - began);
    }
  }
  return times.map((some) => some.sort((one, other) => one - other)[rounds >> 1]!.toFixed(3));
}

/** For acts that are shorter than a tick of a page's clock, 0.1 ms: the median of 50 batches, divided. */
function medianOfBatches(size: number, act: (round: number) => void): string {
  const [batch] = medians(50, (round) => {
    for (let one = 0; one < size; one += 1) act(round * size + one);
  });
  return (Number(batch) / size).toFixed(4);
}

function entered(count: number): Entered[] {
  return Array.from({ length: count }, (_, n) => ({
    watch: 1, branch: "main", id: `urn:todo:${n}`, version: 1, hash: HASH.slice(0, -5) + String(n).padStart(5, "b"),
    body: { title: `todo number ${n}`, done: false, tags: ["a", "b"], votes: n },
  }));
}

function frameOf(count: number): string {
  return JSON.stringify({ type: "sync", from: 0, to: 1, hash: HASH, entered: entered(count), filled: [1] });
}

/** From the text of the first frame to what the app is told. */
function filled(text: string): Held {
  const nursery = new Nursery();
  const watcher = new Watcher(1, { roots: [{ id: "urn:todo:*" }] });
  nursery.watch(1, new Membership("main", [], ["urn:todo:"]), watcher);
  nursery.integrate(parse(text) as unknown as Sync, "s", 0);
  watcher.take(nursery);
  return { nursery, watcher };
}

/** The same values in a map, as an app without the client would have them. */
function plain(text: string): ReadonlyMap<string, unknown> {
  return new Map((JSON.parse(text) as Sync).entered!.map((one) => [one.id, one.body]));
}

function write({ nursery, watcher }: Held, local: number): void {
  const view = nursery.view("main");
  const draft = new TransactionDraft(view, LIMITS);
  draft.patch(`urn:todo:${local % 100}`, [{ op: "replace", path: "/done", value: local % 2 === 0 }]);
  nursery.add(named(draft.plan(), { session: "s", local }, NONCE));
  nursery.release(view);
  watcher.take(nursery);
}

export function times(): string[] {
  const lines: string[] = [];
  const text = frameOf(1_000);
  const [frame, json] = medians(100, () => void filled(text), () => void JSON.parse(text));
  lines.push(`frame of 1,000 entities, ${Math.round(text.length / 1024)} KB: ${frame} ms; JSON.parse alone ${json} ms`);
  for (const pending of [0, 1_000]) {
    const held = filled(text);
    for (let local = 1; local <= pending; local += 1) write(held, local);
    lines.push(`write until in view, from ${pending} pending on: ${medianOfBatches(20, (round) => write(held, pending + round + 1))} ms`);
  }
  const many = frameOf(MANY);
  const { nursery, watcher } = filled(many);
  const change = (round: number): void => {
    const one = { ...entered(1)[0]!, id: `urn:todo:${round}`, body: { n: round } };
    nursery.integrate({ type: "sync", from: round + 1, to: round + 2, hash: HASH, entered: [one] } as Sync, "s", 0);
    watcher.take(nursery);
  };
  lines.push(`one change in a watch of 10,000: ${medianOfBatches(100, change)} ms`);
  const [fill, map] = medians(40, () => void filled(many), () => void plain(many));
  lines.push(`first fill of 10,000 entities: ${fill} ms; in a plain map ${map} ms`);
  return lines;
}

const kept: unknown[] = [];

/** Makes 10,000 entities and keeps them, so that the heap before and after can be compared. */
export function keep(kind: "ours" | "plain"): void {
  kept.push(kind === "ours" ? filled(frameOf(MANY)) : plain(frameOf(MANY)));
}
