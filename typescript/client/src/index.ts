// @stemmadb/client: a live, optimistic client of a StemmaDB server for browsers and node.
export { Conflict, StemmaError } from "./errors.ts";
export type { Json, JsonObject } from "./values/json.ts";
export { apply as applyPatch } from "./patch/apply.ts";
export { diff } from "./patch/diff.ts";
