// JSON Pointers (RFC 6901) and when two of them overlap. A pointer in its text form is its own identity.
import { StemmaError } from "../errors.ts";

export const ROOT = "";
const BAD_ESCAPE = /~(?![01])/;
const INDEX = /^(0|[1-9][0-9]{0,11})$/;

/** The tokens of a pointer, unescaped; `invalid_pointer` if it is not one. */
export function parse(text: string): readonly string[] {
  if (typeof text !== "string") throw bad(String(text), `it is of type ${typeof text}, not a string`);
  if (text === ROOT) return [];
  if (text[0] !== "/") throw bad(text, "it does not begin with '/'");
  const tokens = text.slice(1).split("/");
  if (!text.includes("~")) return tokens;
  if (BAD_ESCAPE.test(text)) throw bad(text, "'~' must be followed by 0 or 1");
  return tokens.map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
}

export function write(tokens: readonly string[]): string {
  return tokens.map((token) => "/" + escape(token)).join("");
}

export function escape(token: string): string {
  return token.includes("~") || token.includes("/") ? token.replaceAll("~", "~0").replaceAll("/", "~1") : token;
}

/** The array index that a token names, up to and including `length`; undefined for `01`, `-`, `1e0` and beyond. */
export function index(token: string, length: number): number | undefined {
  const number = INDEX.test(token) ? Number(token) : Infinity;
  return number <= length ? number : undefined;
}

/** Whether one of the two is the other or lies inside it. */
export function overlaps(one: string, other: string): boolean {
  const [short, long] = one.length <= other.length ? [one, other] : [other, one];
  return long.startsWith(short) && (long.length === short.length || long[short.length] === "/");
}

export function parent(text: string): string {
  return text.slice(0, Math.max(0, text.lastIndexOf("/")));
}

/** The last segment as written, still escaped; empty for the root. */
export function last(text: string): string {
  return text.slice(text.lastIndexOf("/") + 1);
}

function bad(pointer: string, why: string): StemmaError {
  return new StemmaError("invalid_pointer", { pointer: pointer.slice(0, 200).toWellFormed(), why });
}
