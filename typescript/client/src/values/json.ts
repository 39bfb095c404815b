// JSON values (MODEL-3): taken from an app, read, written, compared. Integers beyond 2^53 are `bigint` (TS-2, TS-5).
import { StemmaError } from "../errors.ts";
import { write as pointerOf } from "./pointer.ts";

export type Json = null | boolean | number | bigint | string | readonly Json[] | JsonObject;
export type JsonObject = { readonly [key: string]: Json };
type Writable = { [key: string]: Json };

export const INT_MAX = 2n ** 63n - 1n;
export const INT_MIN = -(2n ** 63n);
const READ_DEPTH_MAX = 500;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Sets a key as data, also `__proto__`, which an assignment would take for the prototype (TS-11). */
export function put(object: JsonObject, key: string, value: Json): void {
  if (key === "__proto__") {
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  } else (object as Writable)[key] = value;
}

/** What an object has under a key of its own; undefined for what it only inherits. */
export function own(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

// ---------------------------------------------------------------- taking what an app gives

/** A private copy of a value; `invalid_value` with the path of the first offence if it is not JSON. */
export function take(value: unknown, depthMax: number): Json {
  return taken(value, [], depthMax, new Set());
}

function taken(value: unknown, path: (string | number)[], depthMax: number, above: Set<object>): Json {
  switch (typeof value) {
    case "string":
      if (!value.isWellFormed()) throw offence(path, "the string holds a lone surrogate");
      return value;
    case "number":
      if (!Number.isFinite(value)) throw offence(path, "the number is not finite");
      return value === 0 ? 0 : value; // -0 is written 0
    case "boolean":
      return value;
    case "bigint":
      if (value < INT_MIN || value > INT_MAX) throw offence(path, "the integer does not fit in 64 bits");
      return Number.isSafeInteger(Number(value)) ? Number(value) : value;
    case "object":
      return value === null ? null : takenContainer(value, path, depthMax, above);
    default:
      throw offence(path, `${typeof value} is not a JSON type`);
  }
}

function takenContainer(value: object, path: (string | number)[], depthMax: number, above: Set<object>): Json {
  if (above.has(value)) throw offence(path, "it holds itself");
  if (above.size >= depthMax) throw offence(path, `it is nested deeper than ${depthMax}`);
  above.add(value);
  const made = Array.isArray(value)
    ? Array.from(value, (item, index) => taken(item, [...path, index], depthMax, above))
    : takenObject(value, path, depthMax, above);
  above.delete(value);
  return made;
}

function takenObject(value: object, path: (string | number)[], depthMax: number, above: Set<object>): Json {
  const prototype: unknown = Object.getPrototypeOf(value);
  // An object of another window or of a test's realm is plain as well; a Date, a Map or a class instance is not.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    throw offence(path, `${value.constructor?.name || "the object"} is not a JSON type`);
  }
  const made: Writable = {};
  for (const key of Object.keys(value)) {
    if (!key.isWellFormed()) throw offence(path, "a key is not valid: the string holds a lone surrogate");
    put(made, key, taken((value as Record<string, unknown>)[key], [...path, key], depthMax, above));
  }
  return made;
}

function offence(path: readonly (string | number)[], why: string): StemmaError {
  return new StemmaError("invalid_value", { path: pointerOf(path.map(String)), why });
}

// ---------------------------------------------------------------- text

const LONG_DIGITS = /\d{16}/;

/** The value of a JSON text. Only a text with 16 digits in a row needs the slower reader (TS-2). */
export function parse(text: string): Json {
  return LONG_DIGITS.test(text) ? new Reader(text).read() : (JSON.parse(text) as Json);
}

/** Reads JSON, integers beyond 2^53 as `bigint`; `SyntaxError` for what is not JSON or is nested too deep. */
class Reader {
  private at = 0;
  private readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  read(): Json {
    const value = this.value(0);
    this.space();
    if (this.at < this.text.length) throw this.bad();
    return value;
  }

  private value(depth: number): Json {
    if (depth > READ_DEPTH_MAX) throw new SyntaxError(`nested deeper than ${READ_DEPTH_MAX}`);
    this.space();
    const letter = this.text[this.at];
    if (letter === "{") return this.object(depth);
    if (letter === "[") return this.array(depth);
    if (letter === '"') return this.string();
    return this.scalar();
  }

  private object(depth: number): Json {
    const made: Writable = {};
    this.at += 1;
    if (this.has("}")) return made;
    for (;;) {
      this.space();
      const key = this.string();
      this.expect(":");
      put(made, key, this.value(depth + 1));
      if (this.has("}")) return made;
      this.expect(",");
    }
  }

  private array(depth: number): Json {
    const made: Json[] = [];
    this.at += 1;
    if (this.has("]")) return made;
    for (;;) {
      made.push(this.value(depth + 1));
      if (this.has("]")) return made;
      this.expect(",");
    }
  }

  private string(): string {
    const start = this.at;
    if (this.text[start] !== '"') throw this.bad();
    let end = start + 1;
    for (; end < this.text.length && this.text[end] !== '"'; end += 1) if (this.text[end] === "\\") end += 1;
    this.at = end + 1;
    return JSON.parse(this.text.slice(start, this.at)) as string;
  }

  private scalar(): Json {
    const start = this.at;
    while (this.at < this.text.length && !",]} \n\r\t".includes(this.text[this.at]!)) this.at += 1;
    const word = this.text.slice(start, this.at);
    const value = JSON.parse(word) as Json;
    const isExact = typeof value !== "number" || Number.isSafeInteger(value) || !/^-?\d+$/.test(word);
    return isExact ? value : bounded(BigInt(word));
  }

  private space(): void {
    while (" \n\r\t".includes(this.text[this.at] ?? "x")) this.at += 1;
  }

  private has(letter: string): boolean {
    this.space();
    if (this.text[this.at] !== letter) return false;
    this.at += 1;
    return true;
  }

  private expect(letter: string): void {
    if (!this.has(letter)) throw this.bad();
  }

  private bad(): SyntaxError {
    return new SyntaxError(`not JSON at character ${this.at}`);
  }
}

function bounded(number: bigint): bigint {
  if (number < INT_MIN || number > INT_MAX) throw new SyntaxError("an integer does not fit in 64 bits");
  return number;
}

/** The JSON text of a value. A `number` beyond 2^53 is a float and is written as one. */
export function stringify(value: unknown): string {
  switch (typeof value) {
    case "number":
      return isUnsafeInteger(value) ? value.toExponential() : JSON.stringify(value);
    case "bigint":
      return value.toString();
    case "object":
      return value === null ? "null" : stringifyContainer(value);
    default:
      return JSON.stringify(value);
  }
}

function stringifyContainer(value: object): string {
  if (Array.isArray(value)) return `[${value.map(stringify).join(",")}]`;
  let text = "";
  for (const key of Object.keys(value)) {
    const item = (value as Record<string, unknown>)[key];
    if (item !== undefined) text += `${text && ","}${JSON.stringify(key)}:${stringify(item)}`;
  }
  return `{${text}}`;
}

/** A number that looks like an integer and is not exact: it came from a float (TS-5). */
export function isUnsafeInteger(value: number): boolean {
  return Number.isInteger(value) && !Number.isSafeInteger(value);
}

// ---------------------------------------------------------------- comparing

/** Equal as JSON: numbers by value, a boolean never equals a number, the order of keys does not count. */
export function equal(left: Json, right: Json): boolean {
  const todo: Json[] = [left, right]; // a stack of pairs: no nesting can exhaust the call stack
  while (todo.length) {
    const one = todo.pop()!;
    const other = todo.pop()!;
    if (one === other) continue;
    if (Array.isArray(one)) {
      if (!Array.isArray(other) || one.length !== other.length) return false;
      for (let index = 0; index < one.length; index += 1) todo.push(one[index]!, other[index]!);
    } else if (isObject(one)) {
      if (!isObject(other) || !pushFields(one, other, todo)) return false;
    } else if (!equalNumbers(one, other)) return false;
  }
  return true;
}

function pushFields(one: JsonObject, other: JsonObject, todo: Json[]): boolean {
  const keys = Object.keys(one);
  if (keys.length !== Object.keys(other).length) return false;
  for (const key of keys) {
    if (!Object.hasOwn(other, key)) return false;
    todo.push(one[key]!, other[key]!);
  }
  return true;
}

function equalNumbers(one: Json, other: Json): boolean {
  const areNumbers = isNumber(one) && isNumber(other);
  return areNumbers && typeof one !== typeof other && one == other;
}

export function isNumber(value: Json): value is number | bigint {
  return typeof value === "number" || typeof value === "bigint";
}
