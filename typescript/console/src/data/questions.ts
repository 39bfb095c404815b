// What the console asks a server. Where the server does not name a feature, an older way is taken or nothing is shown.
import {
  type BlameLine, type BranchEntry, type EntityChange, type HistoryEntry, type Json, type LogEntry, type MergeReport, type QueriedEntity, type Resolution, type RevertAnswer, type Rights,
  type Space, StemmaError, type TagEntry,
} from "@stemmadb/client";
import { MAIN } from "../address.ts";
import { Patience } from "./patience.ts";

/** Of a value that is too large to list, `body` is what fits. */
export type ListedEntity = Omit<QueriedEntity, "body"> & { readonly body: Json };
export type WholeEntity = ListedEntity;
export interface Page {
  readonly version: number;
  readonly entities: readonly ListedEntity[];
  readonly erased: readonly string[];
  readonly next: string | undefined;
}
export interface Count {
  readonly entities: number;
  readonly exact: boolean;
}
export interface PrefixCount extends Count {
  readonly prefix: string;
}
export interface Bucket {
  readonly from_version: number;
  readonly to_version: number;
  readonly from_time: number;
  readonly to_time: number;
  readonly commits: number;
}
export interface Histogram {
  readonly version: number;
  readonly exact?: boolean;
  readonly buckets: readonly Bucket[];
}
interface QueryAnswer { version: number; entities?: QueriedEntity[]; erased?: string[]; next?: string }
interface HistoryAnswer { entries?: HistoryEntry[]; next?: string }
interface BlameAnswer { lines?: BlameLine[]; next?: string }
interface DiffAnswer { left: number; right: number; changes?: EntityChange[]; next?: string }
export type Strategy = "fields" | "source" | "target" | "lww";

export const PAGE_ROWS = 100;
/** Of reads these say that nothing at all may be read here. */
const DENIED = ["unknown_space", "unauthenticated", "invalid_delegation"];

export class Questions {
  readonly space: Space;
  private readonly onDenied: (why: string) => void;
  private readonly patience = new Patience();

  /** `onDenied` learns when this caller may not read here any more, whichever question was the first to show it. */
  constructor(space: Space, onDenied: (why: string) => void = () => undefined) {
    this.space = space;
    this.onDenied = onDenied;
  }

  has(feature: string): boolean {
    return this.space.features().has(feature);
  }

  /** `isLater` for what may wait until no other question is open. */
  private async ask<A>(type: string, fields: object, isLater = false): Promise<A> {
    const asked = (): Promise<A> => this.space.ask(type as "query", fields as never) as Promise<unknown> as Promise<A>;
    try {
      return await (isLater ? this.patience.later(asked) : this.patience.now(asked));
    } catch (error) {
      if (error instanceof StemmaError && DENIED.includes(error.code)) this.onDenied(error.message);
      throw error;
    }
  }

  async page(branch: string, prefix: string, version: number | undefined, o: { after?: string | undefined; from?: string | undefined; limit?: number } = {}): Promise<Page> {
    const shape = this.has("query.shape") ? { shape: "preview" } : {};
    const query = { roots: [{ id: `${prefix}*` }], ...onBranch(branch), ...atVersion(version) };
    const jump = o.from === undefined ? {} : { after: { keys: [], id: o.from }, order: [], limit: o.limit ?? PAGE_ROWS };
    const paging = o.from === undefined ? { limit: o.limit ?? PAGE_ROWS, ...(o.after === undefined ? {} : { after: o.after }) } : {};
    const answer = await this.ask<QueryAnswer>("query", { query: { ...query, ...jump }, ...paging, ...shape });
    return { version: answer.version, entities: (answer.entities ?? []).map((one) => ({ ...one, body: one.body ?? null })), erased: answer.erased ?? [], next: answer.next };
  }

  async entities(branch: string, ids: readonly string[], version: number | undefined): Promise<{ version: number; found: ReadonlyMap<string, WholeEntity>; erased: readonly string[] }> {
    const found = new Map<string, WholeEntity>();
    const erased: string[] = [];
    let pinned = version;
    for (let at = 0; at < ids.length; at += 50) {
      const query = { roots: ids.slice(at, at + 50).map((id) => ({ id })), ...onBranch(branch), ...atVersion(pinned) };
      let after: string | undefined;
      do {
        const answer = await this.ask<QueryAnswer>("query", { query, ...(after === undefined ? {} : { after }) });
        for (const entity of answer.entities ?? []) found.set(entity.id, { ...entity, body: entity.body ?? null });
        erased.push(...(answer.erased ?? []));
        pinned ??= answer.version;
        after = answer.next;
      } while (after !== undefined);
    }
    return { version: pinned ?? 0, found, erased };
  }

  async versionAt(branch: string, time: number): Promise<number> {
    return (await this.ask<QueryAnswer>("query", { query: { roots: [{ id: this.space.did }], ...onBranch(branch), time } })).version;
  }

  /** Undefined where the server cannot count. */
  async count(branch: string, prefix: string, version: number | undefined): Promise<Count | undefined> {
    if (!this.has("count")) return undefined;
    return this.ask<Count>("count", { query: { roots: [{ id: `${prefix}*` }], ...onBranch(branch), ...atVersion(version) } }, true);
  }

  async prefixes(branch: string, prefix: string, version: number | undefined): Promise<readonly PrefixCount[] | undefined> {
    if (!this.has("prefixes")) return undefined;
    const fields = { prefix, separators: ":/#", limit: 200, ...onBranch(branch), ...atVersion(version) };
    return (await this.ask<{ prefixes?: PrefixCount[] }>("prefixes", fields, true)).prefixes ?? [];
  }

  async histogram(fields: { by: "version" | "time"; branch?: string; prefix?: string; since?: number; buckets: number }): Promise<Histogram | undefined> {
    if (!this.has("log.histogram")) return undefined;
    const answer = await this.ask<{ version: number; exact?: boolean; buckets?: Bucket[] }>("log.histogram", fields, true);
    return { ...answer, buckets: answer.buckets ?? [] };
  }

  async log(o: {
    branch?: string | undefined; author?: string | undefined; prefix?: string | undefined; version?: number | undefined; since?: number | undefined;
    order?: "newest" | "oldest"; limit?: number; after?: string | undefined; facts?: boolean; ids?: boolean; kinds?: readonly string[];
  }): Promise<{ version: number; entries: readonly LogEntry[]; next: string | undefined }> {
    const { facts, ids, kinds, ...rest } = o;
    const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined && value !== ""));
    const wantsIds = ids && this.has("log.with_ids") ? { with_ids: true } : {};
    const wantsKinds = kinds !== undefined && this.has("log.kinds") ? { kinds } : {};
    const answer = await this.ask<{ version: number; entries?: LogEntry[]; next?: string }>("log", { ...given, ...wantsIds, ...wantsKinds, ...(facts ? { with_facts: true } : {}) });
    return { version: answer.version, entries: answer.entries ?? [], next: answer.next };
  }

  /** The commit of a version, if this caller may see it. */
  async commit(version: number, facts = false): Promise<LogEntry | undefined> {
    if (version < 1) return undefined;
    const { entries } = await this.log({ version, limit: 1, facts });
    return entries.find((one) => one.version === version);
  }

  /** The next commit before or after a version that touches a branch, and a prefix or an entity of it. `time` is that of the version, if it is known. */
  async step(direction: "prev" | "next", version: number, what: { branch: string; prefix?: string | undefined; id?: string | undefined }, time?: number): Promise<number | undefined> {
    if (what.id !== undefined) return this.stepEntity(direction, version, what.branch, what.id);
    const { branch, prefix } = what;
    if (direction === "prev") return version <= 1 ? undefined : (await this.log({ branch, prefix, version: version - 1, limit: 1 })).entries[0]?.version;
    const since = time ?? (await this.commit(version))?.time;
    let after: string | undefined;
    do {
      const page = await this.log({ branch, prefix, order: "oldest", limit: 20, after, since });
      const found = page.entries.find((one) => one.version > version);
      if (found !== undefined) return found.version;
      after = page.next;
    } while (after !== undefined);
    return undefined;
  }

  private async stepEntity(direction: "prev" | "next", version: number, branch: string, id: string): Promise<number | undefined> {
    if (direction === "prev") return version <= 1 ? undefined : (await this.history(branch, id, { version: version - 1, limit: 1 })).entries[0]?.version;
    let found: number | undefined;
    let after: string | undefined;
    do {
      const page = await this.history(branch, id, { limit: 100, after });
      for (const one of page.entries) {
        if (one.version <= version) return found;
        found = one.version;
      }
      after = page.next;
    } while (after !== undefined);
    return found;
  }

  async history(branch: string, entity: string, o: { version?: number | undefined; limit?: number; after?: string | undefined } = {}): Promise<{ entries: readonly HistoryEntry[]; next: string | undefined }> {
    const { version, limit = PAGE_ROWS, after } = o;
    const answer = await this.ask<HistoryAnswer>("history", { entity, ...onBranch(branch), ...atVersion(version), limit, ...(after === undefined ? {} : { after }) });
    return { entries: answer.entries ?? [], next: answer.next };
  }

  async blame(branch: string, entity: string, version: number | undefined, path = ""): Promise<readonly BlameLine[]> {
    const found: BlameLine[] = [];
    let after: string | undefined;
    do {
      const answer = await this.ask<BlameAnswer>("blame", { entity, ...onBranch(branch), ...atVersion(version), ...(path ? { path } : {}), ...(after === undefined ? {} : { after }) });
      found.push(...(answer.lines ?? []));
      after = answer.next;
    } while (after !== undefined && found.length < 5_000);
    return found;
  }

  async diff(left: { branch: string; version: number | undefined }, right: { branch: string; version: number | undefined }, o: { prefix?: string | undefined; after?: string | undefined } = {}): Promise<{ left: number; right: number; changes: readonly EntityChange[]; next: string | undefined }> {
    const side = (one: { branch: string; version: number | undefined }) => ({ ...onBranch(one.branch), ...atVersion(one.version) });
    const { prefix, after } = o;
    const answer = await this.ask<DiffAnswer>("diff", { left: side(left), right: side(right), limit: PAGE_ROWS, ...(prefix ? { prefix } : {}), ...(after === undefined ? {} : { after }) });
    return { left: answer.left, right: answer.right, changes: answer.changes ?? [], next: answer.next };
  }

  async branches(): Promise<readonly BranchEntry[]> {
    return this.space.branches();
  }

  async tags(): Promise<readonly TagEntry[]> {
    return this.space.tags();
  }

  async rights(): Promise<Rights> {
    try {
      return (await this.ask<{ mine: Rights }>("acl", {})).mine;
    } catch (error) {
      if (error instanceof StemmaError && error.code === "forbidden") this.onDenied(error.message);
      throw error;
    }
  }

  /** The commits that made branches, merges and the like, newest first. */
  async structure(limit: number): Promise<readonly LogEntry[]> {
    const kinds = ["branch.create", "branch.delete", "tag.create", "tag.delete", "merge", "revert", "erase", "compact"];
    if (this.has("log.kinds")) return (await this.log({ kinds, limit })).entries;
    const { entries } = await this.log({ limit: 1_000 });
    return entries.filter((one) => one.kind !== undefined && one.kind !== "commit").slice(0, limit);
  }

  async merge(source: string, target: string, o: { strategy: Strategy; dry_run?: boolean; resolutions?: readonly Resolution[]; note?: Json; expect_target?: number; source_version?: number }): Promise<MergeReport> {
    const from = await this.space.branch(source);
    return from.mergeInto(target, o);
  }

  async revert(branch: string, version: number, o: { dry_run?: boolean; note?: Json }): Promise<RevertAnswer> {
    const on = await this.space.branch(branch);
    return on.revert([version], o);
  }
}

function onBranch(branch: string): { branch?: string } {
  return branch === MAIN ? {} : { branch };
}

function atVersion(version: number | undefined): { version?: number } {
  return version === undefined ? {} : { version };
}

export function asError(error: unknown): StemmaError {
  return error instanceof StemmaError ? error : new StemmaError("internal", {}, error instanceof Error ? `${error.name}: ${error.message}` : String(error));
}
