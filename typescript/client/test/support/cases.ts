// Answers a case as the TypeScript core does: an event of a nursery's life, a transaction, or a patch.
import assert from "node:assert/strict";
import { LIMITS } from "../../src/constants.ts";
import { MISSING, TransactionDraft, type ViewLike } from "../../src/drafting/draft.ts";
import { StemmaError } from "../../src/errors.ts";
import { Membership } from "../../src/nursery/confirmed.ts";
import { ABSENT, branchOf, type Cached, type CommitName, idOf, keyOf, type Seen, type Shown, UNKNOWN } from "../../src/nursery/entities.ts";
import { Nursery } from "../../src/nursery/nursery.ts";
import { named, restored } from "../../src/nursery/pending.ts";
import { byCodePoint } from "../../src/nursery/view.ts";
import { apply } from "../../src/patch/apply.ts";
import { diff } from "../../src/patch/diff.ts";
import { footprint } from "../../src/patch/footprint.ts";
import { fromReference } from "../../src/values/bytes.ts";
import { equal, type Json, parse, stringify } from "../../src/values/json.ts";
import { type Change, Watcher } from "../../src/watching/watcher.ts";
import type { Query, Sync } from "../../src/wire/messages.ts";
import { toHex } from "./vectors.ts";

export interface Case {
  readonly kind: "nursery" | "draft" | "patch";
  readonly [key: string]: unknown;
}
type WireName = [string, number];
type WireCached = { value?: Json; version: number; hash: string; as_of: number | null };

/** Same as JSON, with a message that shows both. */
export function assertSame(made: unknown, expected: unknown, what: string): void {
  const [one, other] = [made ?? null, expected ?? null] as [Json, Json];
  if (!equal(plain(one), plain(other))) assert.fail(`${what}\nmade     ${stringify(one)}\nexpected ${stringify(other)}`);
}

function plain(value: Json): Json {
  return parse(stringify(value));
}

const nameOf = ([session, local]: WireName): CommitName => ({ session, local });
const wireName = ({ session, local }: CommitName): WireName => [session, local];

function cachedOf(one: WireCached): Cached {
  return { value: one.value === undefined ? ABSENT : one.value, version: one.version, hash: one.hash, asOf: one.as_of };
}

// ---------------------------------------------------------------- nurseries

class Life {
  readonly nursery = new Nursery();
  readonly watchers = new Map<number, Watcher>();

  /** What happens to the nursery; gives what the call gave, in JSON. */
  take(event: Case): unknown {
    switch (event["op"]) {
      case "watch": {
        const watcher = new Watcher(event["watch"] as number, event["query"] as Query);
        this.watchers.set(watcher.number, watcher);
        return this.nursery.watch(watcher.number, new Membership(watcher.branch, watcher.names, watcher.prefixes), watcher);
      }
      case "unwatch":
        return this.nursery.unwatch(event["watch"] as number);
      case "unfill":
        return this.nursery.unfill(event["watch"] as number);
      case "add": {
        const pending = restored(nameOf(event["name"] as WireName), event["nonce"] as string, stringify(event["content"]));
        const bases = (event["bases"] as [string, WireCached][]).map(([id, one]) => [id, cachedOf(one)] as const);
        const refusal = this.nursery.add(pending, bases);
        return refusal && { code: refusal.code };
      }
      case "answered": {
        const cached = event["cached"] === null ? undefined : cachedOf(event["cached"] as WireCached);
        return this.nursery.answered(keyOf(event["branch"] as string, event["id"] as string), cached, event["version"] as number);
      }
      case "look": {
        const change = this.watchers.get(event["watch"] as number)!.take(this.nursery);
        return change && changeOf(change);
      }
      default:
        return this.integrate(event);
    }
  }

  private integrate(event: Case): unknown {
    const done = this.nursery.integrate(event["frame"] as Sync, event["session"] as string, event["issued"] as number);
    return {
      confirmed: done.confirmed.map((one) => [wireName(one.pending.name), one.version]),
      refused: done.refused.map((one) => [wireName(one.pending.name), one.code, one.because === undefined ? null : wireName(one.because)]),
      ended: done.ended.map(([number]) => number),
      strangers: done.strangers,
    };
  }

  state(expected: { shown: { [key: string]: unknown } }): unknown {
    const shown: { [key: string]: unknown } = {};
    for (const key of Object.keys(expected.shown)) {
      const at = key.indexOf(" ");
      shown[key] = seen(this.nursery.value(key.slice(0, at), key.slice(at + 1)));
    }
    const pending = this.nursery.pending().map((one) => [wireName(one.name), one.isShown, one.isIntegrated]);
    return { to: this.nursery.to, shown, pending, wanted: wantedOf(this.nursery) };
  }
}

/** As the vectors write it. */
export function wantedOf(nursery: Nursery): string[] {
  return [...nursery.wanted()].map((key) => `${branchOf(key)} ${idOf(key)}`).sort(byCodePoint);
}

function changeOf(change: Change): unknown {
  const { version, entered, updated, left } = change;
  return { version, entered: Object.fromEntries(entered), updated: Object.fromEntries(updated), left };
}

function seen(value: Seen): unknown[] {
  return value === ABSENT ? ["absent"] : value === UNKNOWN ? ["unknown"] : ["value", value];
}

/** Checks events in the order of their lives. */
export class Lives {
  private readonly lives = new Map<string, Life>();

  check(event: Case): void {
    const key = `${String(event["life"])} ${String(event["client"])}`;
    const what = `life ${key}, ${String(event["op"])}`;
    if (event["op"] === "new") return void this.lives.set(key, new Life());
    const life = this.lives.get(key)!;
    assertSame(life.take(event), event["result"], what);
    if (event["after"] !== undefined) assertSame(life.state(event["after"] as { shown: { [key: string]: unknown } }), event["after"], `${what}, after`);
  }
}

// ---------------------------------------------------------------- drafts

interface WireShown {
  id: string; value: Json; basis: number; layers: { name: WireName; paths: string[] | null; value: Json }[];
}

function viewOf(told: { branch: string; to: number; shown: WireShown[]; covered: string[] }): ViewLike {
  const all = new Map<string, Shown>(told.shown.map(({ id, value, basis, layers }) => [
    id, { value, basis, layers: layers.map((one) => ({ name: nameOf(one.name), paths: one.paths, value: one.value })) },
  ]));
  const under = (prefix: string): [string, Shown][] => [...all].filter(([id]) => id.startsWith(prefix));
  return {
    branch: told.branch,
    to: told.to,
    shown: (id) => all.get(id) ?? (told.covered.some((one) => id.startsWith(one)) ? { value: ABSENT, basis: told.to, layers: [] } : undefined),
    listing: (prefix) => (told.covered.some((one) => prefix.startsWith(one)) ? new Map(under(prefix)) : undefined),
    layersUnder: (prefix) => new Map(under(prefix).filter(([, one]) => one.layers.length).map(([id, one]) => [id, one.layers])),
    replayed: (_, base) => ({ value: base, basis: told.to, layers: [] }),
  };
}

const SESSION = "AAECAwQFBgcICQoLDA0ODw==";
const NONCE = "AAAAAAAAAAAAAAAAAAAAAA==";

export function checkDraft(one: Case): void {
  const what = `draft ${String(one["seed"])}`;
  const draft = new TransactionDraft(viewOf(one["view"] as Parameters<typeof viewOf>[0]), LIMITS, one["note"] ? { message: "m" } : undefined);
  for (const step of one["steps"] as { [key: string]: Json }[]) {
    const made = attempt(() => perform(draft, step));
    const expected = "error" in step ? { error: step["error"] } : "missing" in step ? { missing: true } : { result: step["result"] };
    assertSame(made, expected, `${what}, ${stringify(step)}`);
  }
  const made = attempt(() => named(draft.plan(), { session: SESSION, local: 9 }, NONCE));
  if ("error" in one) {
    assertSame((made as { error?: string }).error, one["error"], what);
    return assertSame(draft.missing().sort(byCodePoint), one["missing"], what);
  }
  const pending = (made as { result: ReturnType<typeof named> }).result;
  assert.ok(pending?.text, `${what}: ${stringify(made)}`);
  assertSame(parse(pending.text), one["content"], what);
  assert.equal(toHex(fromReference(pending.request)), one["digest"], `${what}: the digest`);
}

function attempt(act: () => unknown): { error: string } | { missing: true } | { result: unknown } {
  try {
    const result = act();
    return result === MISSING ? { missing: true } : { result: result instanceof Map ? Object.fromEntries(result) : (result ?? null) };
  } catch (error) {
    if (error instanceof StemmaError) return { error: error.code };
    throw error;
  }
}

function perform(draft: TransactionDraft, step: { [key: string]: Json }): unknown {
  const id = step["id"] as string;
  const blind = step["blind"] as boolean;
  switch (step["do"]) {
    case "get": return draft.get(id, step["path"] as string);
    case "list": return draft.listing(step["prefix"] as string);
    case "learn": return draft.learn(id, { value: step["absent"] ? ABSENT : step["value"]!, version: 3, hash: null, asOf: step["as_of"] as number });
    case "set": return draft.set(id, step["value"], blind);
    case "create": return draft.create(id, step["value"]);
    case "update": return draft.update(id, step["value"]);
    case "patch": return draft.patch(id, step["operations"], blind);
    case "increment": return draft.increment(id, step["path"] as string, step["by"] as number, blind);
    default: return draft.delete(id, blind);
  }
}

// ---------------------------------------------------------------- patches

export function checkPatch(one: Case): void {
  const what = `patch ${String(one["seed"])}`;
  const [value, operations] = [one["value"] as Json, one["operations"] as Json[]];
  try {
    assertSame(apply(value, operations), one["expected"], what);
    assert.ok(!("failed" in one), `${what}: it was to fail`);
  } catch (error) {
    if (!(error instanceof StemmaError)) throw error;
    assert.equal(error.details["patch_index"], one["failed"], what);
  }
  assertSame(footprintOf(operations), one["footprint"], what);
  assertSame(diff(value, one["other"] as Json), one["difference"], `${what}: the difference`);
}

/** Its three lists, or the index of the operation that no value could make valid. */
function footprintOf(operations: Json[]): Json {
  try {
    const { writes, reads, increments } = footprint(operations);
    return [writes, reads, increments];
  } catch (error) {
    if (!(error instanceof StemmaError)) throw error;
    return error.details["patch_index"] as number;
  }
}
