// Taking what the app gives: checked at once, and a private copy from then on (MODEL-3).
import { limitExceeded } from "../errors.ts";
import type { LIMITS } from "../constants.ts";
import { type Footprint, footprint } from "../patch/footprint.ts";
import { isObject, type Json, own, take } from "../values/json.ts";
import { encodedLength } from "../values/msgpack.ts";
import * as pointer from "../values/pointer.ts";
import { StemmaError } from "../errors.ts";

export type Limits = typeof LIMITS;
/** Around a value in a patch: the list of operations, the operation, and the list of a splice. */
const PATCH_LEVELS = 3;

export interface CheckedPatch {
  readonly operations: readonly Json[];
  readonly footprint: Footprint;
}

/** The tokens of a JSON Pointer that some value could have a place for. */
export function takePath(path: string, limits: Limits): readonly string[] {
  const tokens = pointer.parse(path);
  if (tokens.length > limits.depth_max + 1) throw limitExceeded("depth_max", limits.depth_max + 1, tokens.length);
  return tokens;
}

/** `invalid_value` names the path of the first offence; `limit_exceeded` the bound of a value's bytes. */
export function takeValue(value: unknown, limits: Limits): Json {
  const mine = take(value, limits.depth_max);
  checkSize(mine, "value_bytes_max", limits.value_bytes_max);
  return mine;
}

export function takeNote(note: unknown, limits: Limits): Json {
  const mine = take(note, limits.depth_max);
  checkSize(mine, "note_bytes_max", limits.note_bytes_max);
  return mine;
}

/** `patch_failed` for an operation that no value could make valid (PATCH-4). */
export function takePatch(operations: unknown, limits: Limits): CheckedPatch {
  const mine = take(operations, limits.depth_max + PATCH_LEVELS);
  if (!Array.isArray(mine)) throw new StemmaError("patch_failed", { patch_index: 0, why: "a patch is a list of operations", path: "" });
  if (mine.length > limits.patch_operations_max) {
    throw limitExceeded("patch_operations_max", limits.patch_operations_max, mine.length);
  }
  checkSize(mine, "value_bytes_max", limits.value_bytes_max);
  const touched = footprint(mine as readonly Json[]);
  for (const path of [...touched.writes, ...touched.reads]) takePath(path, limits);
  return { operations: mine as readonly Json[], footprint: touched };
}

/** What is at a place of the value; undefined where there is nothing. */
export function found(value: Json, tokens: readonly string[]): Json | undefined {
  let now: Json | undefined = value;
  for (const token of tokens) {
    if (Array.isArray(now)) {
      const index: number | undefined = pointer.index(token, now.length - 1);
      now = index === undefined ? undefined : (now as readonly Json[])[index];
    } else now = now !== undefined && isObject(now) ? own(now, token) : undefined;
    if (now === undefined) return undefined;
  }
  return now;
}

function checkSize(value: Json, bound: string, maximum: number): void {
  const size = encodedLength(value);
  if (size > maximum) throw limitExceeded(bound, maximum, size);
}
