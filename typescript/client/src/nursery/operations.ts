// What an operation does to a value: the one meaning that confirmed facts and pending layers share.
import { StemmaError } from "../errors.ts";
import { apply } from "../patch/apply.ts";
import type { Json } from "../values/json.ts";
import { ABSENT, type Seen, UNKNOWN } from "./entities.ts";
import type { CommitWrite } from "./plans.ts";

/** In the place of a value: the operation cannot be applied to what is there. */
export const DOES_NOT_APPLY: unique symbol = Symbol("does not apply");
type Meaning = Pick<CommitWrite, "op" | "value">;

/** The value after these operations, in order (COMMIT-6). What is unknown stays unknown under a patch. */
export function after(value: Seen, writes: readonly Meaning[]): Seen | typeof DOES_NOT_APPLY {
  let now = value;
  for (const write of writes) {
    if (write.op === "set") now = write.value!;
    else if (now === ABSENT) return DOES_NOT_APPLY;
    else if (write.op === "delete") now = ABSENT;
    else if (now !== UNKNOWN) {
      const patched = applied(now, write.value as readonly Json[]);
      if (patched === DOES_NOT_APPLY) return patched;
      now = patched;
    }
  }
  return now;
}

function applied(value: Json, operations: readonly Json[]): Json | typeof DOES_NOT_APPLY {
  try {
    return apply(value, operations);
  } catch (error) {
    if (error instanceof StemmaError) return DOES_NOT_APPLY;
    throw error;
  }
}
