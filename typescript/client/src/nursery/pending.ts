// Pending commits: own work that is not decided yet, with the exact text that is sent (COMMIT-5, TS-4).
import { footprint } from "../patch/footprint.ts";
import { fromBase64 } from "../values/bytes.ts";
import { requestDigest } from "../values/hashes.ts";
import { MAIN } from "../values/ids.ts";
import { type Json, parse, stringify } from "../values/json.ts";
import { encode, type Packable } from "../values/msgpack.ts";
import type { Content, Operation, Read } from "../wire/messages.ts";
import { type CommitName, type Key, keyOf, nameKey } from "./entities.ts";
import type { CommitPlan, CommitWrite, PlannedRead } from "./plans.ts";

/** One undecided commit. Its text never changes: a retry sends the same (RESUME-2). */
export class Pending {
  readonly name: CommitName;
  readonly key: string;
  readonly nonce: string;
  readonly text: string;
  readonly branch: string;
  readonly writes: readonly CommitWrite[];
  /** The own commits it was read through: if one of them is refused, so is this one (COMMIT-4). */
  readonly depends: ReadonlySet<string>;
  /** Those of them that were made in another session. */
  readonly dependsElsewhere: readonly string[];
  /** Whether the view has it: false while one of its operations, or one it builds on, does not apply. */
  isShown = true;
  /** True once its facts are, or may be, among the confirmed values before its verdict: it is hidden then. */
  isIntegrated = false;
  /** Its place among all pending commits; set by the layers. */
  order = 0;
  /** Which operations write each entity, by index. */
  readonly byId = new Map<string, number[]>();
  private digest: string | undefined;

  constructor(name: CommitName, nonce: string, text: string, branch: string, writes: readonly CommitWrite[], depends: readonly CommitName[]) {
    this.name = name;
    this.key = nameKey(name);
    this.nonce = nonce;
    this.text = text;
    this.branch = branch;
    this.writes = writes;
    this.depends = new Set(depends.map(nameKey));
    this.dependsElsewhere = depends.filter((one) => one.session !== name.session).map(nameKey);
    for (const [index, write] of writes.entries()) {
      const indexes = this.byId.get(write.id);
      if (indexes === undefined) this.byId.set(write.id, [index]);
      else indexes.push(index);
    }
  }

  /** The digest by which a verdict says what was accepted (TS-3). */
  get request(): string {
    this.digest ??= requestDigest(fromBase64(this.nonce), contentBytes(contentOf(this.text)));
    return this.digest;
  }

  written(): Key[] {
    return [...this.byId.keys()].map((id) => keyOf(this.branch, id));
  }

  /** The operations on one entity. */
  writesTo(id: string): CommitWrite[] {
    return (this.byId.get(id) ?? []).map((index) => this.writes[index]!);
  }
}

/** The commit that a plan becomes once it has a name: written here, once. */
export function named(plan: CommitPlan, name: CommitName, nonce: string): Pending {
  const content: Content = {
    operations: plan.writes.map(operationOf),
    ...(plan.reads.length ? { reads: plan.reads.map((read) => readOf(read, name.session)) } : {}),
    ...(plan.branch === MAIN ? {} : { branch: plan.branch }),
    ...(plan.note === undefined ? {} : { note: plan.note }),
  };
  const depends = plan.reads.flatMap((read) => read.through);
  return new Pending(name, nonce, stringify(content), plan.branch, plan.writes, depends);
}

function operationOf(write: CommitWrite): Operation {
  const body = write.op === "delete" ? {} : { body: write.value! };
  return { op: write.op, id: write.id, ...body, ...(write.blind ? { blind: true } : {}) };
}

function readOf(read: PlannedRead, session: string): Read {
  const locals = read.through.map((one) => (one.session === session ? one.local : ([one.session, one.local] as const)));
  return {
    version: read.version,
    ...(read.id === undefined ? {} : { id: read.id }),
    ...(read.prefix === undefined ? {} : { prefix: read.prefix }),
    ...(read.path ? { path: read.path } : {}),
    ...(locals.length ? { locals } : {}),
  };
}

/** The commit as the journal has it: read from the text that will be sent. */
export function restored(name: CommitName, nonce: string, text: string): Pending {
  const content = contentOf(text);
  const depends = (content.reads ?? []).flatMap((read) => (read.locals ?? []).map((below) => meant(below, name.session)));
  return new Pending(name, nonce, text, content.branch ?? MAIN, content.operations.map(writeOf), depends);
}

function meant(below: number | readonly [string, number], session: string): CommitName {
  return typeof below === "number" ? { session, local: below } : { session: below[0], local: below[1] };
}

export function contentOf(text: string): Content {
  return parse(text) as unknown as Content;
}

export function writeOf(operation: Operation): CommitWrite {
  const blind = operation.blind ?? false;
  if (operation.op === "delete") return { op: "delete", id: operation.id, paths: null, blind };
  const value = operation.body!;
  const paths = operation.op === "patch" ? footprint(value as readonly Json[]).writes : null;
  return { op: operation.op, id: operation.id, value, paths, blind };
}

/** The bytes that a server makes of a content on the JSON subprotocol: fields in the order of the tables. */
export function contentBytes(content: Content): Uint8Array {
  const body = (value: Json | undefined): Uint8Array | undefined => (value === undefined ? undefined : encode(value));
  const operations = content.operations.map(
    (one): Packable => ({ op: one.op, id: one.id, body: body(one.body), blind: one.blind || undefined }),
  );
  const reads = (content.reads ?? []).map((one): Packable => ({
    version: one.version,
    id: one.id ?? undefined, // null may stand for a missing field
    prefix: one.prefix ?? undefined,
    path: one.path || undefined,
    branch: one.branch ?? undefined,
    locals: one.locals?.length ? one.locals.map(localBytes) : undefined,
  }));
  const branch = content.branch === MAIN ? undefined : content.branch;
  return encode({ operations, reads: reads.length ? reads : undefined, branch, note: body(content.note) });
}

function localBytes(local: number | readonly [string, number]): Packable {
  return typeof local === "number" ? local : [fromBase64(local[0]), local[1]];
}
