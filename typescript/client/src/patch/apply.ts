// Applying a patch: the eight operations, all or nothing; the old value is never changed (PATCH-1, PATCH-2).
import { equal, INT_MAX, INT_MIN, isNumber, isUnsafeInteger, type Json } from "../values/json.ts";
import { PatchDraft } from "./draft.ts";
import { cut, ends, Fault, type Handlers, run, step, tokens, value } from "./operation.ts";

const HANDLERS: Handlers<PatchDraft> = {
  add: (draft, operation) => draft.put(tokens(operation), value(operation)),
  replace: (draft, operation) => draft.replace(tokens(operation), value(operation)),
  remove: (draft, operation) => draft.remove(tokens(operation)),
  move(draft, operation) {
    const [source, target] = ends(operation);
    const moved = draft.find(source);
    if (source.length === target.length && source.every((token, index) => token === target[index])) return;
    draft.remove(source);
    draft.put(target, moved);
  },
  copy: (draft, operation) => draft.put(tokens(operation), draft.share(draft.find(tokens(operation, "from")))),
  test(draft, operation) {
    if (!equal(draft.find(tokens(operation)), value(operation))) throw new Fault("the test found another value");
  },
  splice: (draft, operation) => draft.splice(tokens(operation), ...cut(operation)),
  increment(draft, operation) {
    const place = tokens(operation);
    const by = step(operation);
    draft.replace(place, increased(draft.find(place), by));
  },
};

/** The value after the operations, or `patch_failed` with the index of the first that fails, and why. */
export function apply(value: Json, operations: readonly Json[]): Json {
  const draft = new PatchDraft(value);
  run(HANDLERS, draft, operations);
  return draft.root;
}

/** The sum, if both are numbers and it can be stored: exact where both are integers. */
export function increased(number: Json, by: number | bigint): number | bigint {
  if (!isNumber(number)) throw new Fault("only a number can be incremented");
  if (isInteger(number) && isInteger(by)) return integer(BigInt(number) + BigInt(by));
  const total = Number(number) + Number(by);
  if (!Number.isFinite(total)) throw new Fault("the sum is not finite");
  return total === 0 ? 0 : total;
}

function isInteger(number: number | bigint): boolean {
  return typeof number === "bigint" || (Number.isInteger(number) && !isUnsafeInteger(number));
}

function integer(total: bigint): number | bigint {
  if (total < INT_MIN || total > INT_MAX) throw new Fault("the sum does not fit in 64 bits");
  return Number.isSafeInteger(Number(total)) ? Number(total) : total;
}
