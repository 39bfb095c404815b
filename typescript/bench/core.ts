// What the pure core costs: `node bench/core.ts` in typescript/. Prints milliseconds, the median of many rounds.
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

function median(rounds: number, act: (round: number) => void): string {
  const times = Array.from({ length: rounds }, (_, round) => {
    const began = performance.now();
    act(round);
    return performance.now() - began;
  });
  return times.sort((one, other) => one - other)[rounds >> 1]!.toFixed(3);
}

function entered(count: number): Entered[] {
  return Array.from({ length: count }, (_, n) => ({
    watch: 1, branch: "main", id: `urn:todo:${n}`, version: 1, hash: HASH, body: { title: `todo number ${n}`, done: false, tags: ["a", "b"], votes: n },
  }));
}

function watching(count: number): { nursery: Nursery; watcher: Watcher } {
  const nursery = new Nursery();
  const watcher = new Watcher(1, { roots: [{ id: "urn:todo:*" }] });
  nursery.watch(1, new Membership("main", [], ["urn:todo:"]), watcher);
  nursery.integrate({ type: "sync", from: 0, to: 1, hash: HASH, entered: entered(count), filled: [1] }, "s", 0);
  watcher.take(nursery);
  return { nursery, watcher };
}

function write(nursery: Nursery, watcher: Watcher, local: number): void {
  const view = nursery.view("main");
  const draft = new TransactionDraft(view, LIMITS);
  draft.patch(`urn:todo:${local % 100}`, [{ op: "replace", path: "/done", value: local % 2 === 0 }]);
  nursery.add(named(draft.plan(), { session: "s", local }, NONCE));
  nursery.release(view);
  watcher.take(nursery);
}

{
  const text = JSON.stringify({ type: "sync", from: 0, to: 1, hash: HASH, entered: entered(1_000), filled: [1] });
  const frame = (): void => {
    const nursery = new Nursery();
    const watcher = new Watcher(1, { roots: [{ id: "urn:todo:*" }] });
    nursery.watch(1, new Membership("main", [], ["urn:todo:"]), watcher);
    nursery.integrate(parse(text) as unknown as Sync, "s", 0);
    watcher.take(nursery);
  };
  console.log(`frame of 1,000 entities, ${Math.round(text.length / 1024)} KB: ${median(50, frame)} ms; JSON.parse alone ${median(50, () => void JSON.parse(text))} ms`);
}
for (const pending of [0, 1_000]) {
  const { nursery, watcher } = watching(1_000);
  for (let local = 1; local <= pending; local += 1) write(nursery, watcher, local);
  console.log(`write until in view, from ${pending} pending on: ${median(300, (round) => write(nursery, watcher, pending + round + 1))} ms`);
}
{
  const { nursery, watcher } = watching(10_000);
  const change = (round: number): void => {
    const one = { ...entered(1)[0]!, id: `urn:todo:${round}`, body: { n: round } };
    nursery.integrate({ type: "sync", from: round + 1, to: round + 2, hash: HASH, entered: [one] } as Sync, "s", 0);
    watcher.take(nursery);
  };
  console.log(`one change in a watch of 10,000: ${median(500, change)} ms`);
}
