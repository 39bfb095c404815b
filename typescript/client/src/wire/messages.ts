// Every message in its JSON form. Made from the Python types by `make web-made`: do not edit.
import type { Json } from "../values/json.ts";

/** The commit is durable at `version`. One hash and one salt for each of its facts; a delete has no salt. */
export interface AcceptedVerdict {
  readonly verdict: "accepted";
  readonly local: number;
  readonly session?: string;
  readonly version: number;
  readonly time: number;
  readonly hash: string;
  readonly request: string;
  readonly hashes: readonly string[];
  readonly salts: readonly (string | null)[];
}

/** `mine` is what the asking principal may do; `roles` are there for those who may read the ACL. */
export interface AclAnswer {
  readonly version: number;
  readonly mine: Rights;
  readonly roles?: { readonly [key: string]: "none" | "read" | "write" | "own" };
}

/** Asks for the ACL as of a version, or at the head. */
export interface AclRequest {
  readonly type: "acl";
  readonly id: number;
  readonly version?: number;
}

/** The last row of the page before: for each key its value in an array, which is empty if it was missing. */
export interface AfterRow {
  readonly keys: readonly (readonly Json[])[];
  readonly id: string;
}

export interface BlameAnswer {
  readonly version: number;
  readonly next?: string;
  readonly lines?: readonly BlameLine[];
}

/** The commit that last wrote the leaf at `path`; only `compacted` where that cannot be told any more. */
export interface BlameLine {
  readonly path: string;
  readonly version?: number;
  readonly author?: string;
  readonly time?: number;
  readonly note?: Json;
  readonly compacted?: boolean;
}

/** For each leaf of an entity's value, or of the part at `path`: who wrote it last. */
export interface BlameRequest {
  readonly type: "blame";
  readonly id: number;
  readonly after?: string;
  readonly limit?: number;
  readonly entity: string;
  readonly branch?: string;
  readonly version?: number;
  readonly path?: string;
}

/** Begins an upload, or asks where it stopped. */
export interface BlobBegin {
  readonly type: "blob.begin";
  readonly id: number;
  readonly blob: string;
  readonly size: number;
  readonly content_type?: string;
}

/** The bytes at `offset`, which is where the server said it is. */
export interface BlobChunk {
  readonly type: "blob.chunk";
  readonly id: number;
  readonly blob: string;
  readonly offset: number;
  readonly data: string;
}

/** All bytes were sent: verify and keep. */
export interface BlobEnd {
  readonly type: "blob.end";
  readonly id: number;
  readonly blob: string;
}

/** How many bytes the server has, from the first on; `stored` when the blob is there and verified. */
export interface BlobOffset {
  readonly offset: number;
  readonly stored?: boolean;
}

/** Bytes of a blob from `offset`; the last part ends at `size`. */
export interface BlobPart {
  readonly blob: string;
  readonly size: number;
  readonly content_type: string;
  readonly offset: number;
  readonly data: string;
}

/** Asks for at most `length` bytes from `offset`, within the bound of a chunk. */
export interface BlobRead {
  readonly type: "blob.read";
  readonly id: number;
  readonly blob: string;
  readonly offset?: number;
  readonly length?: number;
}

/** The blob is durable and its bytes give its name. */
export interface BlobStored {
  readonly blob: string;
  readonly size: number;
  readonly content_type: string;
}

export interface BranchCreate {
  readonly kind: "branch.create";
  readonly name: string;
  readonly parent: string;
  readonly fork: number;
}

export interface BranchDelete {
  readonly kind: "branch.delete";
  readonly name: string;
}

/** `head` is the version of the last write on the branch, 0 if there is none; `deleted` is when it ended. */
export interface BranchEntry {
  readonly name: string;
  readonly parent?: string;
  readonly fork: number;
  readonly head: number;
  readonly deleted?: number;
}

export interface BranchesAnswer {
  readonly version: number;
  readonly next?: string;
  readonly branches?: readonly BranchEntry[];
}

/** A commit with its facts on watched entities, in order; `branch` is missing on space-wide writes. */
export interface CommitItem {
  readonly version: number;
  readonly kind?: "commit" | "branch.create" | "branch.delete" | "tag.create" | "tag.delete" | "merge" | "revert" | "erase" | "compact" | "revoke";
  readonly branch?: string;
  readonly author: string;
  readonly time: number;
  readonly session?: string;
  readonly local?: number;
  readonly note?: Json;
  readonly facts: readonly FactItem[];
}

/** A commit of the session. `content` is hashed as sent, together with the nonce (MODEL-4, COMMIT-5). */
export interface CommitMessage {
  readonly type: "commit";
  readonly local: number;
  readonly nonce: string;
  readonly content: Content;
  readonly session?: string;
}

/** Beside the floor, what its answer says, so that a repeated request gets the same one (COMMIT-11). */
export interface Compact {
  readonly kind: "compact";
  readonly floor: number;
  readonly oldest?: number;
  readonly bodies?: number;
  readonly blobs?: number;
  readonly bytes?: number;
  readonly snapshots?: number;
}

/** The oldest version that can be read from now on, and what was removed. */
export interface CompactAnswer {
  readonly version: number;
  readonly hash: string;
  readonly time: number;
  readonly floor: number;
  readonly bodies?: number;
  readonly blobs?: number;
  readonly bytes?: number;
}

/** Removes what no state at or above `floor` needs (COMPACT-1, BLOB-2). */
export interface CompactRequest {
  readonly type: "compact";
  readonly id: number;
  readonly operation: string;
  readonly nonce: string;
  readonly floor: number;
  readonly note?: Json;
}

/** The content of a commit: what its digest covers and what is decided on. */
export interface Content {
  readonly operations: readonly Operation[];
  readonly reads?: readonly Read[];
  readonly branch?: string;
  readonly note?: Json;
}

/** One conflict of a merge: where, between which versions, and who won (MERGE-3). */
export interface Contested {
  readonly id: string;
  readonly path?: string;
  readonly base?: number;
  readonly source: number;
  readonly target: number;
  readonly winner: "source" | "target" | "both" | "resolution";
}

/** How many entities the query would give, as of `version`; a lower bound unless `exact`. */
export interface CountAnswer {
  readonly version: number;
  readonly entities: number;
  readonly exact: boolean;
}

/** Counts the entities of a query without a schema. */
export interface CountRequest {
  readonly type: "count";
  readonly id: number;
  readonly query: Query;
}

/** Forks `parent` at `fork`, or at its head. */
export interface CreateBranch {
  readonly type: "branch.create";
  readonly id: number;
  readonly operation: string;
  readonly nonce: string;
  readonly name: string;
  readonly parent?: string;
  readonly fork?: number;
  readonly note?: Json;
}

/** Names a version of a branch, or its head, and keeps it from being compacted away. */
export interface CreateTag {
  readonly type: "tag.create";
  readonly id: number;
  readonly operation: string;
  readonly nonce: string;
  readonly name: string;
  readonly branch?: string;
  readonly version?: number;
  readonly note?: Json;
}

/** An entity of a stale read as it is now, so that a retry needs no round trip; without `body` it has no value. */
export interface Current {
  readonly branch: string;
  readonly id: string;
  readonly version: number;
  readonly hash: string;
  readonly body?: Json;
}

/** Not a verdict: the commit could not be decided now and stays pending (COMMIT-10). */
export interface Deferred {
  readonly type: "deferred";
  readonly local: number;
  readonly session?: string;
  readonly code: string;
  readonly retry_after_ms?: number;
}

/** Ends a branch; it stays readable and can be merged from. */
export interface DeleteBranch {
  readonly type: "branch.delete";
  readonly id: number;
  readonly operation: string;
  readonly nonce: string;
  readonly name: string;
  readonly note?: Json;
}

export interface DeleteTag {
  readonly type: "tag.delete";
  readonly id: number;
  readonly operation: string;
  readonly nonce: string;
  readonly name: string;
  readonly note?: Json;
}

/** `left` and `right` are the versions that were compared. */
export interface DiffAnswer {
  readonly left: number;
  readonly right: number;
  readonly changes?: readonly EntityChange[];
  readonly next?: string;
}

/** Compares any two states, per entity and per path. */
export interface DiffRequest {
  readonly type: "diff";
  readonly id: number;
  readonly after?: string;
  readonly limit?: number;
  readonly left: Moment;
  readonly right: Moment;
  readonly prefix?: string;
}

/** The answer that says only that it was done. */
export type Done = Record<string, never>;

/** A watch that is over, and why: its branch was deleted, or it outgrew a bound. */
export interface Ended {
  readonly watch: number;
  readonly code: string;
  readonly message: string;
  readonly details?: { readonly [key: string]: Json };
}

/** An entity that a watch now holds. Without `body` the client has it already, at this hash (SYNC-3). */
export interface Entered {
  readonly watch: number;
  readonly branch: string;
  readonly id: string;
  readonly version: number;
  readonly hash: string;
  readonly body?: Json;
}

/** An entity that differs: the versions of its last facts on both sides, and how to get from left to right. */
export interface EntityChange {
  readonly id: string;
  readonly left?: number;
  readonly right?: number;
  readonly patch?: Json;
  readonly body?: Json;
  readonly erased?: "left" | "right" | "both";
}

/** `entities` are further ones of the same erasure. */
export interface Erase {
  readonly kind: "erase";
  readonly id: string;
  readonly versions: readonly number[];
  readonly entities?: readonly ErasedEntity[];
}

/** How many bodies were destroyed. */
export interface EraseAnswer {
  readonly version: number;
  readonly hash: string;
  readonly time: number;
  readonly erased: number;
}

/** Destroys the bodies of an entity's facts at these versions, and the named blobs (ERASE-1). */
export interface EraseRequest {
  readonly type: "erase";
  readonly id: number;
  readonly operation: string;
  readonly nonce: string;
  readonly entity: string;
  readonly versions: readonly number[];
  readonly entities?: readonly EraseTarget[];
  readonly survivors?: readonly Survivor[];
  readonly blobs?: readonly string[];
  readonly note?: Json;
}

/** An entity, and the versions whose bodies are destroyed. */
export interface EraseTarget {
  readonly id: string;
  readonly versions: readonly number[];
}

/** An entity, and the versions at which an erasure destroyed its bodies. */
export interface ErasedEntity {
  readonly id: string;
  readonly versions: readonly number[];
}

/** The answer to a request that failed. Without an `id` it is about a message that could not be told apart. */
export interface ErrorMessage {
  readonly type: "error";
  readonly id?: number;
  readonly local?: number;
  readonly session?: string;
  readonly code: string;
  readonly message: string;
  readonly details?: { readonly [key: string]: Json };
  readonly retriable?: boolean;
}

/** A fact. Its hash is computed from these fields; `digest` stands in where salt and body are gone (FACT-2). */
export interface FactItem {
  readonly index: number;
  readonly id: string;
  readonly kind: "set" | "patch" | "delete" | "checkpoint";
  readonly parent: string;
  readonly salt?: string;
  readonly body?: Json;
  readonly digest?: string;
  readonly branch?: string;
}

/** The server's last message before it closes: taken over, going away, or an order that was broken. */
export interface Goodbye {
  readonly type: "goodbye";
  readonly code: string;
  readonly message: string;
  readonly details?: { readonly [key: string]: Json };
  readonly retry_after_ms?: number;
}

/** A watch the client goes on with; one that was not `filled` at `to` comes whole (RESUME-1). */
export interface HeldWatch {
  readonly watch: number;
  readonly query: Query;
  readonly filled?: boolean;
}

/** The first message of a connection. `limits` are the server's bounds by name; unknown names are ignored. */
export interface Hello {
  readonly type: "hello";
  readonly protocol: number;
  readonly server: string;
  readonly challenge: string;
  readonly limits?: { readonly [key: string]: number };
  readonly features?: readonly string[];
}

/** The buckets that have a commit, oldest first. Unless `exact` older ones are missing: `next` goes on there. */
export interface HistogramAnswer {
  readonly version: number;
  readonly next?: string;
  readonly exact: boolean;
  readonly buckets?: readonly HistogramBucket[];
}

/** Commits that follow one another: the first and the last that count, and how many count in all. */
export interface HistogramBucket {
  readonly from_version: number;
  readonly to_version: number;
  readonly from_time: number;
  readonly to_time: number;
  readonly commits: number;
}

/** How many commits `log` shows, in buckets of equal length by version or by time. */
export interface HistogramRequest {
  readonly type: "log.histogram";
  readonly id: number;
  readonly by?: "version" | "time";
  readonly buckets?: number;
  readonly branch?: string;
  readonly prefix?: string;
  readonly author?: string;
  readonly since?: number;
  readonly until?: number;
  readonly after?: string;
}

export interface HistoryAnswer {
  readonly version: number;
  readonly next?: string;
  readonly entries?: readonly HistoryEntry[];
}

/** A fact of the entity with the data of its commit; body and salt may be gone, the digest stays. */
export interface HistoryEntry {
  readonly version: number;
  readonly index: number;
  readonly branch: string;
  readonly kind: "set" | "patch" | "delete" | "checkpoint";
  readonly parent: string;
  readonly hash: string;
  readonly digest: string;
  readonly salt?: string;
  readonly body?: Json;
  readonly author: string;
  readonly time: number;
  readonly session?: string;
  readonly local?: number;
  readonly operation?: string;
  readonly note?: Json;
  readonly made_by?: "commit" | "branch.create" | "branch.delete" | "tag.create" | "tag.delete" | "merge" | "revert" | "erase" | "compact" | "revoke";
}

/** The facts of one entity as a branch sees them, up to a version. */
export interface HistoryRequest {
  readonly type: "history";
  readonly id: number;
  readonly after?: string;
  readonly limit?: number;
  readonly entity: string;
  readonly branch?: string;
  readonly version?: number;
  readonly order?: "newest" | "oldest";
}

/** A commit of the principal that the server has, to find out which others are lost (RESUME-4). */
export interface Kept {
  readonly local: number;
  readonly session?: string;
  readonly version: number;
  readonly hash: string;
}

/** An entity that a watch no longer holds. */
export interface Left {
  readonly watch: number;
  readonly branch: string;
  readonly id: string;
}

/** The branches by name, deleted ones included. */
export interface ListBranches {
  readonly type: "branch.list";
  readonly id: number;
  readonly after?: string;
  readonly limit?: number;
}

/** The tags by name. */
export interface ListTags {
  readonly type: "tag.list";
  readonly id: number;
  readonly after?: string;
  readonly limit?: number;
}

export interface LogAnswer {
  readonly version: number;
  readonly next?: string;
  readonly entries?: readonly LogEntry[];
}

/** A commit record with everything its hash covers, so that a client can verify the chain (FACT-3). */
export interface LogEntry {
  readonly version: number;
  readonly hash: string;
  readonly previous: string;
  readonly kind?: "commit" | "branch.create" | "branch.delete" | "tag.create" | "tag.delete" | "merge" | "revert" | "erase" | "compact" | "revoke";
  readonly arguments?: BranchCreate | BranchDelete | TagCreate | TagDelete | Merge | Revert | Erase | Compact | Revoke;
  readonly branch?: string;
  readonly author: string;
  readonly session?: string;
  readonly local?: number;
  readonly operation?: string;
  readonly time: number;
  readonly request: string;
  readonly note_digest: string;
  readonly note?: Json;
  readonly note_salt?: string;
  readonly facts?: readonly string[];
  readonly fact_branches?: readonly string[];
  readonly items?: readonly FactItem[];
}

/** Commits up to `version` that pass every filter given; `since` and `until` are times, both included. */
export interface LogRequest {
  readonly type: "log";
  readonly id: number;
  readonly after?: string;
  readonly limit?: number;
  readonly branch?: string;
  readonly author?: string;
  readonly session?: string;
  readonly prefix?: string;
  readonly since?: number;
  readonly until?: number;
  readonly version?: number;
  readonly order?: "newest" | "oldest";
  readonly with_facts?: boolean;
  readonly with_ids?: boolean;
  readonly kinds?: readonly ("commit" | "branch.create" | "branch.delete" | "tag.create" | "tag.delete" | "merge" | "revert" | "erase" | "compact" | "revoke")[];
}

/** The second parent, the state of the target it was computed on, and every conflict there was. */
export interface Merge {
  readonly kind: "merge";
  readonly source: string;
  readonly source_version: number;
  readonly target_version: number;
  readonly strategy?: "lww" | "source" | "target" | "fields" | "fail";
  readonly resolved?: readonly string[];
  readonly conflicts?: readonly Contested[];
}

/** What was merged. Without `version` nothing was written: it was a dry run, or there was nothing to do. */
export interface MergeReport {
  readonly version?: number;
  readonly hash?: string;
  readonly time?: number;
  readonly source_version: number;
  readonly target_version: number;
  readonly conflicts_count?: number;
  readonly conflicts?: readonly Contested[];
  readonly writes_count?: number;
  readonly writes?: readonly MergeWrite[];
}

/** Merges `source`, at a version or its head, into `target`. */
export interface MergeRequest {
  readonly type: "merge";
  readonly id: number;
  readonly operation: string;
  readonly nonce: string;
  readonly source: string;
  readonly target?: string;
  readonly source_version?: number;
  readonly strategy?: "lww" | "source" | "target" | "fields" | "fail";
  readonly resolutions?: readonly Resolution[];
  readonly expect_target?: number;
  readonly dry_run?: boolean;
  readonly note?: Json;
}

/** What a merge writes, or would write, to one entity of the target. */
export interface MergeWrite {
  readonly id: string;
  readonly kind: "set" | "patch" | "delete";
  readonly body?: Json;
}

/** A branch at a version, at a time, or at its head. */
export interface Moment {
  readonly branch?: string;
  readonly version?: number;
  readonly time?: number;
}

/** The answer to a request; what `result` is depends on the request. */
export interface Ok {
  readonly type: "ok";
  readonly id: number;
  readonly result: Json;
}

/** `set` and `patch` bring a body, `delete` none; `blind` claims nothing about what was there (COMMIT-3). */
export interface Operation {
  readonly op: "set" | "patch" | "delete";
  readonly id: string;
  readonly body?: Json;
  readonly blind?: boolean;
}

/** One key of an order: a JSON Pointer into the value of the entity. */
export interface OrderBy {
  readonly path: string;
  readonly descending?: boolean;
}

/** Asks for a sign of life. With `follow` every later commit brings this session a frame at once (SYNC-8). */
export interface Ping {
  readonly type: "ping";
  readonly id: number;
  readonly follow?: boolean;
}

/** The server lives; its space is at `version`. */
export interface Pong {
  readonly version: number;
}

/** A prefix, which ends with a separator, or a whole id; `entities` is a lower bound unless `exact`. */
export interface PrefixEntry {
  readonly prefix: string;
  readonly entities: number;
  readonly exact: boolean;
}

/** In the order of the prefixes; those without an entity are left out. */
export interface PrefixesAnswer {
  readonly version: number;
  readonly next?: string;
  readonly prefixes?: readonly PrefixEntry[];
}

/** The children of a prefix: up to the next separator, or to the end of the id. */
export interface PrefixesRequest {
  readonly type: "prefixes";
  readonly id: number;
  readonly after?: string;
  readonly limit?: number;
  readonly prefix?: string;
  readonly separators?: string;
  readonly branch?: string;
  readonly version?: number;
  readonly time?: number;
}

/** An entity of an answer: `version` and `hash` are those of its last fact. */
export interface QueriedEntity {
  readonly id: string;
  readonly version: number;
  readonly hash: string;
  readonly body?: Json;
  readonly truncated?: boolean;
  readonly size?: number;
  readonly omitted?: readonly string[];
}

/** Roots on a branch at a moment: a version, a time, or, with neither, the head (QUERY-1). */
export interface Query {
  readonly roots: readonly Root[];
  readonly branch?: string;
  readonly version?: number;
  readonly time?: number;
  readonly order?: readonly OrderBy[];
  readonly limit?: number;
  readonly after?: AfterRow;
}

/** One cut: every entity in it is as of `version`. */
export interface QueryAnswer {
  readonly version: number;
  readonly next?: string;
  readonly entities?: readonly QueriedEntity[];
  readonly unresolved?: readonly UnresolvedLink[];
  readonly erased?: readonly string[];
}

/** Runs a query once. Paging is for queries without a schema. `shape` says how much of each value comes. */
export interface QueryRequest {
  readonly type: "query";
  readonly id: number;
  readonly after?: string;
  readonly limit?: number;
  readonly query: Query;
  readonly shape?: "whole" | "ids" | "preview";
}

/** A declared read of one path of an entity, or of a whole id prefix ("nothing else is there") (COMMIT-2). */
export interface Read {
  readonly version: number;
  readonly id?: string;
  readonly prefix?: string;
  readonly path?: string;
  readonly branch?: string;
  readonly locals?: readonly (number | readonly [string, number])[];
}

/** The commit is not in the log. `stale` and `current` are there for a conflict, within a size bound (SYNC-5). */
export interface RejectedVerdict {
  readonly verdict: "rejected";
  readonly local: number;
  readonly session?: string;
  readonly code: string;
  readonly message: string;
  readonly details?: { readonly [key: string]: Json };
  readonly stale?: readonly StaleRead[];
  readonly current?: readonly Current[];
}

/** What a contested entity shall be; without `body` it is deleted. */
export interface Resolution {
  readonly id: string;
  readonly body?: Json;
}

export interface Revert {
  readonly kind: "revert";
  readonly versions: readonly number[];
}

/** The commits that were undone; without `version` there was nothing to undo, or it was a dry run. */
export interface RevertAnswer {
  readonly version?: number;
  readonly hash?: string;
  readonly time?: number;
  readonly reverted?: readonly number[];
  readonly writes_count?: number;
  readonly writes?: readonly MergeWrite[];
}

/** Undoes commits on a branch: given ones, those of a session, or those of an author; after `since` (COMMIT-9). */
export interface RevertRequest {
  readonly type: "revert";
  readonly id: number;
  readonly operation: string;
  readonly nonce: string;
  readonly branch?: string;
  readonly versions?: readonly number[];
  readonly session?: string;
  readonly author?: string;
  readonly since?: number;
  readonly dry_run?: boolean;
  readonly note?: Json;
}

export interface Revoke {
  readonly kind: "revoke";
  readonly delegation: string;
}

/** Takes back a delegation and all that were made from it; `delegation` is the hash of its bytes. */
export interface RevokeRequest {
  readonly type: "revoke";
  readonly id: number;
  readonly operation: string;
  readonly nonce: string;
  readonly delegation: string;
  readonly token?: string;
}

/** A role, narrowed to ids that begin with one of the prefixes; the empty prefix is every id. */
export interface Rights {
  readonly role: "none" | "read" | "write" | "own";
  readonly prefixes?: readonly string[];
}

/** Where to start: an id, a prefix written `urn:todo:*`, or `*`. Without a schema no link is followed. */
export interface Root {
  readonly id: string;
  readonly path?: string;
  readonly schema?: boolean | { readonly [key: string]: Json };
}

/** Who comes, proved by a signature, and where it stands. Answered by the first `sync` frame (RESUME-1). */
export interface SessionOpen {
  readonly type: "session.open";
  readonly principal: string;
  readonly session: string;
  readonly signature: string;
  readonly space?: string;
  readonly to?: number;
  readonly hash?: string;
  readonly lowest?: number;
  readonly held?: readonly number[];
  readonly watches?: readonly HeldWatch[];
  readonly delegations?: readonly string[];
}

/** A read that does not hold: what was read, at which version, and the commit that won and its author. */
export interface StaleRead {
  readonly branch: string;
  readonly id: string;
  readonly path?: string;
  readonly prefix?: string;
  readonly read: number;
  readonly head: number;
  readonly winner: number;
  readonly author?: string;
}

/** The value an entity keeps on a branch whose head is erased; without `body` it is deleted there. */
export interface Survivor {
  readonly branch: string;
  readonly body?: Json;
}

/** Takes the client from the state at `from` to the state at `to`; a part with `more` waits for the last. */
export interface Sync {
  readonly type: "sync";
  readonly from: number;
  readonly to: number;
  readonly hash: string;
  readonly verdicts?: readonly (AcceptedVerdict | RejectedVerdict)[];
  readonly commits?: readonly CommitItem[];
  readonly entered?: readonly Entered[];
  readonly left?: readonly Left[];
  readonly filled?: readonly number[];
  readonly ended?: readonly Ended[];
  readonly reset?: "floor" | "history";
  readonly kept?: readonly Kept[];
  readonly more?: boolean;
}

export interface TagCreate {
  readonly kind: "tag.create";
  readonly name: string;
  readonly branch: string;
  readonly version: number;
}

export interface TagDelete {
  readonly kind: "tag.delete";
  readonly name: string;
}

export interface TagEntry {
  readonly name: string;
  readonly branch: string;
  readonly version: number;
}

export interface TagsAnswer {
  readonly version: number;
  readonly next?: string;
  readonly tags?: readonly TagEntry[];
}

/** Where nothing was found; an erased target is also in `erased` (QUERY-5). */
export interface UnresolvedLink {
  readonly id: string;
  readonly path?: string;
}

/** Ends a watch. */
export interface UnwatchRequest {
  readonly type: "unwatch";
  readonly id: number;
  readonly watch: number;
}

/** The watch starts at `version` and continues in the stream (SYNC-7). */
export interface WatchAnswer {
  readonly version: number;
  readonly commits?: readonly CommitItem[];
  readonly next?: string;
}

/** Keeps a query true in the stream. A number in use is replaced: the stream tells the difference (WATCH-3). */
export interface WatchRequest {
  readonly type: "watch";
  readonly id: number;
  readonly watch: number;
  readonly query: Query;
  readonly since?: number;
  readonly after?: string;
}

/** A write that took a version of its own: the same answer each time its operation id is sent (COMMIT-11). */
export interface Written {
  readonly version: number;
  readonly hash: string;
  readonly time: number;
}

export interface ClientMessages {
  "session.open": SessionOpen;
  "commit": CommitMessage;
  "query": QueryRequest;
  "watch": WatchRequest;
  "unwatch": UnwatchRequest;
  "history": HistoryRequest;
  "log": LogRequest;
  "log.histogram": HistogramRequest;
  "diff": DiffRequest;
  "blame": BlameRequest;
  "count": CountRequest;
  "prefixes": PrefixesRequest;
  "branch.create": CreateBranch;
  "branch.delete": DeleteBranch;
  "branch.list": ListBranches;
  "tag.create": CreateTag;
  "tag.delete": DeleteTag;
  "tag.list": ListTags;
  "merge": MergeRequest;
  "revert": RevertRequest;
  "erase": EraseRequest;
  "compact": CompactRequest;
  "blob.begin": BlobBegin;
  "blob.chunk": BlobChunk;
  "blob.end": BlobEnd;
  "blob.read": BlobRead;
  "acl": AclRequest;
  "revoke": RevokeRequest;
  "ping": Ping;
}

export interface ServerMessages {
  "hello": Hello;
  "sync": Sync;
  "deferred": Deferred;
  "ok": Ok;
  "error": ErrorMessage;
  "goodbye": Goodbye;
}

export interface Answers {
  "query": QueryAnswer;
  "watch": WatchAnswer;
  "unwatch": Done;
  "history": HistoryAnswer;
  "log": LogAnswer;
  "log.histogram": HistogramAnswer;
  "diff": DiffAnswer;
  "blame": BlameAnswer;
  "count": CountAnswer;
  "prefixes": PrefixesAnswer;
  "branch.create": Written;
  "branch.delete": Written;
  "branch.list": BranchesAnswer;
  "tag.create": Written;
  "tag.delete": Written;
  "tag.list": TagsAnswer;
  "merge": MergeReport;
  "revert": RevertAnswer;
  "erase": EraseAnswer;
  "compact": CompactAnswer;
  "blob.begin": BlobOffset;
  "blob.chunk": BlobOffset;
  "blob.end": BlobStored;
  "blob.read": BlobPart;
  "acl": AclAnswer;
  "revoke": Written;
  "ping": Pong;
}

export type ClientMessage = ClientMessages[keyof ClientMessages];
export type ServerMessage = ServerMessages[keyof ServerMessages];
