// A space on one branch: what an app reads, writes and watches.
import type { SpaceCore, Status } from "./core.ts";
import { found } from "./drafting/inputs.ts";
import { StemmaError } from "./errors.ts";
import { ABSENT, isNothing, type Seen, UNKNOWN } from "./nursery/entities.ts";
import { byCodePoint } from "./nursery/view.ts";
import { fetchIds, fetchQuery, pages } from "./reading/fetch.ts";
import type { FromSchema, Schema } from "./reading/schema.ts";
import type { RejectedCommit } from "./session/notifier.ts";
import { type Fields, pause, type RequestType } from "./session/requests.ts";
import { Draft, listedPrefix, type Transaction } from "./transactions.ts";
import { branchName, entityId, MAIN } from "./values/ids.ts";
import { type Json, stringify, take } from "./values/json.ts";
import * as pointer from "./values/pointer.ts";
import { Watch } from "./watching/watch.ts";
import type {
  AclAnswer, Answers, BlameLine, BranchEntry, CommitItem, EntityChange, HistoryEntry, LogEntry, MergeReport, MergeRequest, Moment as WireMoment, Query,
  Resolution, RevertAnswer, Root, TagEntry, UnresolvedLink, Written,
} from "./wire/messages.ts";

export type Selector = string | readonly string[] | readonly Root[];
export interface QueryOptions<S extends Schema = Schema> {
  readonly schema?: S;
  readonly path?: string;
}
export interface Found<V = Json> {
  readonly version: number;
  readonly entities: ReadonlyMap<string, V>;
  readonly unresolved: readonly UnresolvedLink[];
  readonly erased: readonly string[];
}
export interface PendingCommit {
  readonly session: string;
  readonly local: number;
  readonly branch: string;
  readonly ids: readonly string[];
  /** False while one of its operations does not apply, or it may be in the log already: the view leaves it out. */
  readonly isShown: boolean;
}
export type MomentLike = number | string | { readonly branch?: string; readonly version?: number; readonly time?: number | Date };
export interface LogOptions {
  readonly branch?: string | null; readonly author?: string; readonly prefix?: string; readonly since?: number; readonly until?: number;
  readonly version?: number; readonly order?: "newest" | "oldest"; readonly with_facts?: boolean; readonly limit?: number;
}
export type MergeOptions = Partial<Pick<MergeRequest, "strategy" | "dry_run" | "note" | "source_version">> & { readonly resolutions?: readonly Resolution[] };

const HEAD_READS_MAX = 8;
const TRIES_MAX = 10;
const RETRIED = ["conflict", "dependency", "overtaken"];

export class Space {
  readonly branchName: string;
  private readonly core: SpaceCore;

  constructor(core: SpaceCore, branch: string = MAIN) {
    this.core = core;
    this.branchName = branch;
  }

  get did(): string {
    return this.core.session.space;
  }

  // ------------------------------------------------------------ writing

  /** One commit, in view when this resolves: `await space.transaction((tx) => tx.set("urn:todo:1", {...}))`. */
  transaction<T>(fn: (tx: Draft) => T | Promise<T>, o: { note?: Json } = {}): Promise<Transaction<T>> {
    this.checkOpen();
    return new Draft(this.core, this.branchName, o.note).run(fn);
  }

  /** Runs `fn` and waits until its commit is confirmed; runs it again on the current values on a conflict. */
  async transact<T>(fn: (tx: Draft) => T | Promise<T>, o: { note?: Json; tries?: number } = {}): Promise<T> {
    for (let tried = 1; ; tried += 1) {
      const tx = await this.transaction(fn, o);
      try {
        await tx.confirmed();
        return tx.value;
      } catch (error) {
        const again = error instanceof StemmaError && RETRIED.includes(error.code) && tried < (o.tries ?? TRIES_MAX);
        if (!again) throw error;
        tx.rejection?.drop();
        await pause(Math.random() * Math.min(10 * 2 ** tried, 500));
      }
    }
  }

  /** Resolves once every own commit has been decided. */
  settled(): Promise<void> {
    return this.core.session.notifier.idle();
  }

  // ------------------------------------------------------------ reading

  /** The value, or the part of it at `path`; undefined if there is none. Own writes are seen at once. */
  async get<V extends Json = Json>(id: string, path = ""): Promise<V | undefined> {
    entityId(id, this.core.limits.id_bytes_max);
    const tokens = pointer.parse(path);
    const { nursery } = this.core.session;
    const shown = nursery.value(this.branchName, id);
    const isHere = nursery.isLocal(this.branchName, id) || (this.core.link.state !== "open" && shown !== UNKNOWN);
    const value = isHere ? shown : await this.readHead(id);
    return isNothing(value) ? undefined : (found(value, tokens) as V | undefined);
  }

  /** What is in view, without the server: undefined if it is not there or not known here. The same object each time. */
  peek<V extends Json = Json>(id: string, path = ""): V | undefined {
    const shown = this.core.session.nursery.value(this.branchName, id);
    return isNothing(shown) ? undefined : (found(shown, pointer.parse(path)) as V | undefined);
  }

  /** What the server has, with own pending writes on top. If an own commit was accepted meanwhile, it is read again. */
  private async readHead(id: string): Promise<Json | typeof ABSENT> {
    const { nursery } = this.core.session;
    for (let tries = 0; tries < HEAD_READS_MAX; tries += 1) {
      const snapshot = await fetchIds(this.core.requests, this.branchName, [id]);
      if (nursery.acceptedAfter(this.branchName, id, snapshot.version)) continue;
      return nursery.over(this.branchName, id, snapshot.entities.get(id)?.value ?? ABSENT) as Json | typeof ABSENT;
    }
    throw new StemmaError("unavailable", {}, "Own commits changed what was read each time it was read. Try again.");
  }

  /** What matches at the head. A query by id or prefix shows own pending writes; one with a schema is the server's word. */
  async query<const S extends Schema>(selector: Selector, o: QueryOptions<S> = {}): Promise<Found<FromSchema<S>>> {
    const query: Query = { roots: rootsOf(selector, o), ...this.onBranch() };
    const snapshot = await fetchQuery(this.core.requests, query);
    const { nursery } = this.core.session;
    const values = new Map<string, Seen>([...snapshot.entities].map(([id, one]) => [id, one.value]));
    const isPlain = query.roots.every((root) => root.schema === undefined && !root.path);
    for (const id of nursery.layered(this.branchName)) {
      const isNamed = values.has(id) || (isPlain && query.roots.some((root) => names(root.id, id)));
      if (isNamed) values.set(id, nursery.over(this.branchName, id, values.get(id) ?? ABSENT));
    }
    const there = [...values].filter(([, value]) => !isNothing(value)).sort(([one], [other]) => byCodePoint(one, other));
    const { version, unresolved, erased } = snapshot;
    return { version, entities: new Map(there) as unknown as ReadonlyMap<string, FromSchema<S>>, unresolved, erased };
  }

  /** Everything under a prefix such as `urn:todo:*`, by id. */
  async list(prefix = "*"): Promise<ReadonlyMap<string, Json>> {
    listedPrefix(prefix);
    return (await this.query(prefix)).entities as ReadonlyMap<string, Json>;
  }

  /** The same, kept up to date: `for await (const change of space.watch("urn:todo:*")) ...`. */
  watch<const S extends Schema>(selector: Selector, o: QueryOptions<S> = {}): Watch<FromSchema<S> & Json> {
    this.checkOpen();
    const { subscriptions } = this.core.session;
    const query: Query = { roots: rootsOf(selector, o), ...this.onBranch() };
    return new Watch(subscriptions, subscriptions.watch(query));
  }

  // ------------------------------------------------------------ the past

  /** Any past state: `await space.at({ version: 3 }).get("urn:todo:1")`. */
  at(moment: { version: number } | { time: Date | number } | { tag: string }): Moment {
    return new Moment(this.core, this.branchName, moment);
  }

  history(id: string, o: { version?: number; order?: "newest" | "oldest"; limit?: number } = {}): AsyncIterable<HistoryEntry> {
    return pages(this.core.requests, "history", { entity: id, ...this.onBranch(), ...o }, (answer) => answer.entries);
  }

  /** The commits of this branch, newest first; `branch: null` for those of all branches. */
  log(o: LogOptions = {}): AsyncIterable<LogEntry> {
    const { branch = this.branchName, ...rest } = o;
    return pages(this.core.requests, "log", { ...(branch === null ? {} : { branch }), ...rest }, (answer) => answer.entries);
  }

  /** What leads from one state to another, each a version, a branch name or a moment. */
  diff(left: MomentLike, right: MomentLike, o: { prefix?: string } = {}): AsyncIterable<EntityChange> {
    const fields = { left: this.moment(left), right: this.moment(right), ...o };
    return pages(this.core.requests, "diff", fields, (answer) => answer.changes);
  }

  /** For each leaf of a value, who wrote it last. */
  blame(id: string, o: { version?: number; path?: string } = {}): AsyncIterable<BlameLine> {
    return pages(this.core.requests, "blame", { entity: id, ...this.onBranch(), ...o }, (answer) => answer.lines);
  }

  // ------------------------------------------------------------ branches and tags

  /** The same space on a branch; with `create` the branch is made here if it is not there yet. */
  async branch(name: string, o: { create?: boolean; at?: number } = {}): Promise<Space> {
    branchName(name);
    if (o.create) {
      await this.settled();
      const parent = this.branchName === MAIN ? {} : { parent: this.branchName };
      const fork = o.at === undefined ? {} : { fork: o.at };
      await this.core.requests.write("branch.create", { name, ...parent, ...fork }).catch(unless("branch_exists"));
    }
    if (name !== MAIN) {
      const known = (await this.branches()).find((one) => one.name === name);
      if (known === undefined) throw new StemmaError("unknown_branch", { branch: name });
      if (o.create && known.deleted !== undefined) throw new StemmaError("branch_deleted", { branch: name });
    }
    return new Space(this.core, name);
  }

  branches(): Promise<BranchEntry[]> {
    return gathered(pages(this.core.requests, "branch.list", {}, (answer) => answer.branches));
  }

  async deleteBranch(name: string): Promise<Written> {
    return this.core.requests.write("branch.delete", { name });
  }

  tags(): Promise<TagEntry[]> {
    return gathered(pages(this.core.requests, "tag.list", {}, (answer) => answer.tags));
  }

  async tag(name: string, o: { version?: number } = {}): Promise<Written> {
    await this.settled();
    return this.core.requests.write("tag.create", { name, ...this.onBranch(), ...o });
  }

  /** Brings what this branch has to another; `report.conflicts` lists what both sides changed. */
  async mergeInto(target: string, o: MergeOptions = {}): Promise<MergeReport> {
    await this.settled();
    const report = await this.core.requests.write("merge", { source: this.branchName, target, ...o });
    await this.core.catchUp(); // what was merged is in view when this resolves
    return report;
  }

  /** Undoes commits by a new one; `conflict` where later commits touched the same places. */
  async revert(versions: readonly number[], o: { dry_run?: boolean; note?: Json } = {}): Promise<RevertAnswer> {
    await this.settled();
    const report = await this.core.requests.write("revert", { versions, ...this.onBranch(), ...o });
    await this.core.catchUp();
    return report;
  }

  /** What the server names in `hello` beside the protocol itself; empty before the first connection. */
  features(): ReadonlySet<string> {
    return this.core.requests.features;
  }

  /** One message of docs/spec/04-protocol as it is, and its answer: one page of a list, or what has no method here. */
  ask<T extends RequestType>(type: T, fields: Fields<T>): Promise<Answers[T]> {
    return this.core.requests.ask(type, fields);
  }

  /** Every later commit of the space moves `status().asOf` at once, whatever is watched (SYNC-8). An older server only
   * says which version it has. */
  async follow(): Promise<number> {
    return (await this.core.requests.ask("ping", this.features().has("ping.follow") ? { follow: true } : {})).version;
  }

  /** Who may do what. */
  access(): Promise<AclAnswer> {
    return this.core.requests.ask("acl", {});
  }

  // ------------------------------------------------------------ how it stands

  status(): Status {
    return this.core.status();
  }

  subscribeStatus(listener: () => void): () => void {
    return this.core.subscribe(listener);
  }

  /** Own commits that are not decided, the oldest first; those of adopted sessions too. */
  pending(): readonly PendingCommit[] {
    return this.core.session.nursery.pending().map(({ name, branch, byId, isShown }) => ({ ...name, branch, ids: [...byId.keys()], isShown }));
  }

  /** Own commits that were refused, until they are retried or dropped; a journal keeps them over reloads. */
  rejected(): readonly RejectedCommit[] {
    return [...this.core.session.notifier.rejected.values()];
  }

  /** Confirmed commits that a restored server no longer has (RESUME-4). */
  lost(): readonly { readonly version: number; readonly content: string }[] {
    return this.core.session.notifier.lost;
  }

  /** Calls with each refused commit that nobody awaits; returns how to stop that. */
  onRejected(fn: (rejected: RejectedCommit) => void): () => void {
    return this.core.session.notifier.listen(fn);
  }

  /** Tries to connect at once. */
  nudge(): void {
    this.core.link.nudge();
  }

  private onBranch(): { branch?: string } {
    return this.branchName === MAIN ? {} : { branch: this.branchName };
  }

  private moment(given: MomentLike): WireMoment {
    if (typeof given === "string") return { branch: given };
    if (typeof given === "number") return { ...this.onBranch(), version: given };
    const { time, ...rest } = given;
    return { ...this.onBranch(), ...rest, ...(time === undefined ? {} : { time: Number(time) }) };
  }

  private checkOpen(): void {
    if (this.core.session.ended !== undefined) throw this.core.session.ended;
  }
}

/** A branch as it was, read only. What is asked first settles the version, and all that follows is of that version. */
export class Moment {
  version: number | undefined;
  private branch: string;
  private readonly core: SpaceCore;
  private readonly time: number | undefined;
  private readonly tag: string | undefined;

  constructor(core: SpaceCore, branch: string, given: { version?: number; time?: Date | number; tag?: string }) {
    this.core = core;
    this.branch = branch;
    this.version = given.version;
    this.time = given.time === undefined ? undefined : Number(given.time);
    this.tag = given.tag;
  }

  async get<V extends Json = Json>(id: string, path = ""): Promise<V | undefined> {
    const tokens = pointer.parse(path);
    const { entities, erased } = await this.query(id);
    if (erased.includes(id)) throw new StemmaError("erased", { id });
    const value = entities.get(id);
    return value === undefined ? undefined : (found(value, tokens) as V | undefined);
  }

  async list(prefix = "*"): Promise<ReadonlyMap<string, Json>> {
    listedPrefix(prefix);
    return (await this.query(prefix)).entities;
  }

  async query(selector: Selector, o: QueryOptions = {}): Promise<Found> {
    if (this.tag !== undefined && this.version === undefined) {
      const tags = await gathered(pages(this.core.requests, "tag.list", {}, (answer) => answer.tags));
      const tag = tags.find((one) => one.name === this.tag);
      if (tag === undefined) throw new StemmaError("unknown_tag", { tag: this.tag });
      [this.branch, this.version] = [tag.branch, tag.version];
    }
    const at = this.version !== undefined ? { version: this.version } : this.time === undefined ? {} : { time: this.time };
    const snapshot = await fetchQuery(this.core.requests, { roots: rootsOf(selector, o), branch: this.branch, ...at });
    this.version = snapshot.version;
    const entities = new Map([...snapshot.entities].map(([id, one]) => [id, one.value as Json]));
    return { version: snapshot.version, entities, unresolved: snapshot.unresolved, erased: snapshot.erased };
  }
}

export type { CommitItem };

/** The roots that a selector means; schema and path are for those that are written as text. */
export function rootsOf(selector: Selector, o: QueryOptions): Root[] {
  const several = (typeof selector === "string" ? [selector] : selector) as readonly (string | Root)[];
  const { schema, path } = o;
  const extra = { ...(path ? { path } : {}), ...(schema === undefined ? {} : { schema: take(schema, 64) as Root["schema"] }) };
  return several.map((one) => (typeof one === "string" ? ({ id: one, ...extra } as Root) : one));
}

/** The text by which equal watches are found (TS-10): canonical, so the order of keys does not count. */
export function watchKey(branch: string, selector: Selector, o: QueryOptions): string {
  return stringify(sorted(take({ branch, roots: rootsOf(selector, o) }, 70)));
}

function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const object = value as { readonly [key: string]: Json };
  return Object.fromEntries(Object.keys(object).sort().map((key) => [key, sorted(object[key]!)]));
}

function names(selector: string, id: string): boolean {
  return selector.endsWith("*") ? id.startsWith(selector.slice(0, -1)) : selector === id;
}

async function gathered<T>(entries: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const entry of entries) all.push(entry);
  return all;
}

function unless(code: string): (error: unknown) => void {
  return (error) => {
    if (!(error instanceof StemmaError) || error.code !== code) throw error;
  };
}
