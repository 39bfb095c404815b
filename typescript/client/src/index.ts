// @stemmadb/client: a live, optimistic client of a StemmaDB server for browsers and node.
export { connect, type ConnectOptions, type Database } from "./database.ts";
export { Conflict, StemmaError } from "./errors.ts";
export type { Status } from "./core.ts";
export type { Journal } from "./journal/port.ts";
export { didOf, type Identity, identityFromSeed, identityOf, newKeys } from "./keys/identity.ts";
export type { FromSchema, Schema } from "./reading/schema.ts";
export type { RejectedCommit } from "./session/notifier.ts";
export {
  type Found, type LogOptions, type MergeOptions, type Moment, type MomentLike, type PendingCommit, type QueryOptions, type Selector,
  type Space, watchKey,
} from "./space.ts";
export type { Draft, Transaction } from "./transactions.ts";
export type { Json, JsonObject } from "./values/json.ts";
export type { Change } from "./watching/watcher.ts";
export type { Watch } from "./watching/watch.ts";
export type {
  AclAnswer, BlameLine, BranchEntry, Contested, EntityChange, HistoryEntry, LogEntry, MergeReport, MergeWrite, QueriedEntity, Resolution,
  RevertAnswer, Rights, StaleRead, TagEntry, Written,
} from "./wire/messages.ts";
