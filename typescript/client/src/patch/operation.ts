// One patch operation: its members, each with its type, or a `Fault` that says what is wrong (PATCH-1).
import { StemmaError } from "../errors.ts";
import { INT_MAX, INT_MIN, isObject, type Json, type JsonObject, own } from "../values/json.ts";
import * as pointer from "../values/pointer.ts";

export type Operation = JsonObject;
export type Handlers<S> = { readonly [op: string]: (subject: S, operation: Operation) => void };

/** Why one operation cannot be applied; `run` adds which one it was. */
export class Fault extends Error {}

/** Hands each operation to its handler; `patch_failed` with the index of the first that faults. */
export function run<S>(handlers: Handlers<S>, subject: S, operations: readonly Json[]): void {
  if (!Array.isArray(operations)) throw failed(0, "a patch is a list of operations", "");
  for (const [index, operation] of (operations as readonly Json[]).entries()) {
    try {
      handlerOf(handlers, operation)(subject, operation as Operation);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const path = isObject(operation) ? own(operation, "path") : "";
      throw failed(index, error.message, typeof path === "string" ? path.slice(0, 200) : "");
    }
  }
}

function handlerOf<S>(handlers: Handlers<S>, operation: Json): (subject: S, operation: Operation) => void {
  if (!isObject(operation)) throw new Fault("an operation is a map");
  const name = own(operation, "op");
  if (typeof name !== "string") throw new Fault("'op' must be a string");
  const handler = Object.hasOwn(handlers, name) ? handlers[name] : undefined;
  if (handler === undefined) throw new Fault(`there is no operation '${name.slice(0, 80)}'`);
  return handler;
}

function failed(patch_index: number, why: string, path: string): StemmaError {
  return new StemmaError("patch_failed", { patch_index, why, path });
}

/** The place that an operation names, as its text. */
export function path(operation: Operation, member = "path"): string {
  tokens(operation, member);
  return own(operation, member) as string;
}

/** The place that an operation names, as the tokens that lead to it. */
export function tokens(operation: Operation, member = "path"): readonly string[] {
  const text = own(operation, member);
  if (typeof text !== "string") throw new Fault(`'${member}' must be a string`);
  try {
    return pointer.parse(text);
  } catch (error) {
    if (!(error instanceof StemmaError)) throw error;
    throw new Fault(`'${member}' is not a JSON Pointer: ${String(error.details["why"])}`);
  }
}

/** The value that an operation brings; null is one, none at all is not. */
export function value(operation: Operation): Json {
  const found = own(operation, "value");
  if (found === undefined) throw new Fault("'value' is missing");
  return found;
}

/** Source and target of a `move`; nothing can be moved into itself. */
export function ends(operation: Operation): [readonly string[], readonly string[]] {
  const source = tokens(operation, "from");
  const target = tokens(operation);
  if (source.length < target.length && source.every((token, index) => token === target[index])) {
    throw new Fault("a value cannot be moved into itself");
  }
  return [source, target];
}

/** By how much an `increment` changes the number. */
export function step(operation: Operation): number | bigint {
  const by = own(operation, "by");
  const isBig = typeof by === "bigint" && by >= INT_MIN && by <= INT_MAX;
  if (typeof by !== "number" && !isBig) throw new Fault("'by' must be a number of 64 bits");
  return by;
}

/** Where a `splice` cuts, how many elements it takes out, and what it puts there. */
export function cut(operation: Operation): [number, number, readonly Json[]] {
  const added = own(operation, "add");
  if (!Array.isArray(added)) throw new Fault("'add' must be an array");
  return [count(operation, "index"), count(operation, "remove"), added];
}

function count(operation: Operation, member: string): number {
  const number = own(operation, member);
  if (typeof number === "bigint" && number >= 0n) return Number(number);
  if (typeof number !== "number" || !Number.isInteger(number) || number < 0) {
    throw new Fault(`'${member}' must be an integer of 0 or more`);
  }
  return number;
}
