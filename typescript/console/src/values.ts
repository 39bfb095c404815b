// How values are laid out as lines: one value, and two beside each other. Pure.
import type { Json, JsonObject } from "@stemmadb/client";
import { equal, isObject, own, stringify } from "../../client/src/values/json.ts";
import { escape, parse } from "../../client/src/values/pointer.ts";
import { cut, escaped } from "./text.ts";

export type Kind = "string" | "number" | "boolean" | "null" | "object" | "array" | "link" | "close" | "more";

/** One line of a value. `path` is the JSON Pointer of what stands there; `size` the number of children. */
export interface Line {
  readonly path: string;
  readonly depth: number;
  readonly name: string | undefined;
  readonly kind: Kind;
  readonly value: Json | undefined;
  readonly size: number;
  readonly isOpen: boolean;
  readonly isLast: boolean;
}

const NAME_MAX = 300;
/** What one container draws at most; the rest is one line that says how many there are. */
export const CHILDREN_MAX = 500;

export function kindOf(value: Json): Exclude<Kind, "link" | "close" | "more"> {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "bigint") return "number";
  return typeof value as "string" | "number" | "boolean" | "object";
}

function children(value: Json): [string, Json][] {
  if (Array.isArray(value)) return (value as readonly Json[]).slice(0, CHILDREN_MAX).map((one, index) => [String(index), one]);
  return Object.entries(value as JsonObject).slice(0, CHILDREN_MAX);
}

function sizeOf(value: Json): number {
  if (Array.isArray(value)) return value.length;
  return isObject(value) ? Object.keys(value).length : 0;
}

export function lines(value: Json, isClosed: (path: string) => boolean): Line[] {
  const made: Line[] = [];
  const add = (one: Json, path: string, depth: number, name: string | undefined, isLast: boolean): void => {
    const kind = linkOf(one) === undefined ? kindOf(one) : "link";
    const size = kind === "link" ? 0 : sizeOf(one);
    const isOpen = size > 0 && !isClosed(path);
    made.push({ path, depth, name, kind, value: one, size, isOpen, isLast });
    if (!isOpen) return;
    const isArray = kind === "array";
    const shown = children(one);
    shown.forEach(([key, child], at) => add(child, `${path}/${escape(key)}`, depth + 1, isArray ? undefined : key, at === size - 1));
    if (size > shown.length) made.push({ path, depth: depth + 1, name: undefined, kind: "more", value: undefined, size: size - shown.length, isOpen: false, isLast: true });
    made.push({ path, depth, name: undefined, kind: "close", value: one, size, isOpen: false, isLast });
  };
  add(value, "", 0, undefined, true);
  return made;
}

export type Mark = "same" | "added" | "removed" | "changed";
/** One row of a comparison: the text on each side, absent where there is nothing. */
export interface Row {
  readonly path: string;
  readonly depth: number;
  readonly mark: Mark;
  readonly left: string | undefined;
  readonly right: string | undefined;
}

const OPEN = { object: "{", array: "[" } as const;
const CLOSE = { object: "}", array: "]" } as const;

/** Two values beside each other, key by key; undefined is no value. */
export function compare(left: Json | undefined, right: Json | undefined): Row[] {
  const rows: Row[] = [];
  const label = (name: string | undefined): string => (name === undefined ? "" : `${JSON.stringify(cut(name, NAME_MAX))}: `);
  const push = (path: string, depth: number, mark: Mark, one: string | undefined, other: string | undefined): void =>
    void rows.push({ path, depth, mark, left: one, right: other });

  const whole = (value: Json, path: string, depth: number, name: string | undefined, mark: "added" | "removed" | "same"): void => {
    const put = (text: string, at: number): void => push(path, at, mark, mark === "added" ? undefined : text, mark === "removed" ? undefined : text);
    const kind = kindOf(value);
    if ((kind !== "object" && kind !== "array") || sizeOf(value) === 0) return put(label(name) + brief(value), depth);
    put(label(name) + OPEN[kind], depth);
    for (const [key, child] of children(value)) whole(child, `${path}/${escape(key)}`, depth + 1, kind === "array" ? undefined : key, mark);
    put(CLOSE[kind], depth);
  };

  const both = (one: Json | undefined, other: Json | undefined, path: string, depth: number, name: string | undefined): void => {
    if (one === undefined && other === undefined) return;
    if (one === undefined) return whole(other!, path, depth, name, "added");
    if (other === undefined) return whole(one, path, depth, name, "removed");
    if (equal(one, other)) {
      const isSmall = sizeOf(one) === 0 || depth === 0;
      return isSmall ? whole(one, path, depth, name, "same") : push(path, depth, "same", label(name) + folded(one), label(name) + folded(other));
    }
    const kind = kindOf(one);
    if (kind !== kindOf(other) || (kind !== "object" && kind !== "array")) return push(path, depth, "changed", label(name) + brief(one), label(name) + brief(other));
    push(path, depth, "same", label(name) + OPEN[kind], label(name) + OPEN[kind]);
    if (kind === "array") {
      const [items, others] = [one as readonly Json[], other as readonly Json[]];
      const { head, tail } = commonEnds(items, others);
      for (let at = 0; at < head; at += 1) both(items[at], others[at], `${path}/${at}`, depth + 1, undefined);
      const [middle, otherMiddle] = [items.slice(head, items.length - tail), others.slice(head, others.length - tail)];
      const length = Math.min(CHILDREN_MAX, Math.max(middle.length, otherMiddle.length));
      for (let at = 0; at < length; at += 1) both(middle[at], otherMiddle[at], `${path}/${head + at}`, depth + 1, undefined);
      for (let at = 0; at < tail; at += 1) both(items[items.length - tail + at], others[others.length - tail + at], `${path}/${others.length - tail + at}`, depth + 1, undefined);
    } else {
      const keys = new Set([...Object.keys(one as JsonObject), ...Object.keys(other as JsonObject)]);
      for (const key of [...keys].slice(0, CHILDREN_MAX)) both(own(one as JsonObject, key), own(other as JsonObject, key), `${path}/${escape(key)}`, depth + 1, key);
    }
    push(path, depth, "same", CLOSE[kind], CLOSE[kind]);
  };

  both(left, right, "", 0, undefined);
  return rows;
}

function commonEnds(one: readonly Json[], other: readonly Json[]): { head: number; tail: number } {
  const shorter = Math.min(one.length, other.length);
  let head = 0;
  while (head < shorter && equal(one[head]!, other[head]!)) head += 1;
  let tail = 0;
  while (tail < shorter - head && equal(one[one.length - 1 - tail]!, other[other.length - 1 - tail]!)) tail += 1;
  return { head, tail };
}

const BRIEF_MAX = 600;

/** A value in one line, cut where it is long. */
export function brief(value: Json, max = BRIEF_MAX): string {
  if (typeof value === "string" && value.length > max) return JSON.stringify(value.slice(0, max)) + `… (${value.length.toLocaleString("en-US")} characters)`;
  const text = stringify(value);
  return text.length > max ? `${text.slice(0, max)}…` : text;
}

function folded(value: Json): string {
  const size = sizeOf(value);
  const text = stringify(value);
  if (text.length <= 60) return text;
  return Array.isArray(value) ? `[ … ${size} ]` : `{ … ${size} }`;
}

/** What stands in a cell of a table. */
export function cell(value: Json | undefined): string {
  if (value === undefined) return "";
  const link = linkOf(value);
  if (link !== undefined) return `→ ${link}`;
  return typeof value === "string" ? value : brief(value, 200);
}

/** The columns that rows of a table have in common: the keys that most of them have, in the order they first appear. */
export function columns(values: readonly Json[], max: number): string[] {
  const counts = new Map<string, number>();
  for (const value of values.slice(0, 1_000)) {
    if (!isObject(value)) continue;
    for (const key of Object.keys(value).slice(0, 40)) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const first = [...counts.keys()];
  const often = first.filter((key) => counts.get(key)! * 20 >= values.length).sort((one, other) => counts.get(other)! - counts.get(one)!);
  const chosen = new Set(often.slice(0, max));
  return first.filter((key) => chosen.has(key));
}

const ID = /^(?:urn|did):[^\s]+$/;

/** Whether a text of a value may be the id of an entity, so that it can be followed. */
export function isLink(value: Json): boolean {
  return typeof value === "string" && value.length < 500 && ID.test(value);
}

/** The id that a sigil link `{"/": {"link@1": {"id": ...}}}` leads to, if that is in this space (QUERY-2). */
export function linkOf(value: Json): string | undefined {
  const about = only(only(value, "/"), "link@1");
  if (!isObject(about) || own(about, "space") !== undefined) return undefined;
  const id = own(about, "id");
  return typeof id === "string" && id.length < 500 ? id : undefined;
}

/** Where the id of a link stands in it. */
export const LINK_ID = "/~1/link@1/id";

function only(value: Json | undefined, key: string): Json | undefined {
  return isObject(value) && Object.keys(value).length === 1 ? own(value, key) : undefined;
}

/** The part of a value at a path, or undefined. */
export function at(value: Json | undefined, tokens: readonly string[]): Json | undefined {
  let found: Json | undefined = value;
  for (const token of tokens) {
    if (Array.isArray(found)) found = (found as readonly Json[])[Number(token)];
    else found = isObject(found) ? own(found, token) : undefined;
  }
  return found;
}

/** A value with another part at a path; `undefined` takes the part away. What is above it is made if it is missing. */
export function withPart(value: Json | undefined, tokens: readonly string[], part: Json | undefined): Json | undefined {
  const [first, ...rest] = tokens;
  if (first === undefined) return part;
  if (Array.isArray(value)) {
    const items = [...(value as readonly Json[])];
    const made = withPart(items[Number(first)], rest, part);
    if (made === undefined) items.splice(Number(first), 1);
    else items[Number(first)] = made;
    return items;
  }
  const entries = isObject(value) ? Object.entries(value).filter(([key]) => key !== first) : [];
  const order = isObject(value) ? Object.keys(value) : [];
  const made = withPart(isObject(value) ? own(value, first) : undefined, rest, part);
  if (made !== undefined) {
    const place = order.indexOf(first);
    entries.splice(place === -1 ? entries.length : place, 0, [first, made]);
  }
  return Object.fromEntries(entries);
}

/** The text of a note: a plain text, or the `message` of an object. */
export function noteText(note: Json | undefined): string {
  if (note === undefined || note === null) return "";
  if (typeof note === "string") return note;
  const message = isObject(note) ? own(note, "message") : undefined;
  return typeof message === "string" ? message : brief(note, 300);
}

/** A value as JSON for an editor, in lines where no number or key would become another by that. */
export function editable(value: Json): string {
  const text = stringify(value);
  return escaped(text.includes("__proto__") || /\d{16}|\de/.test(text) ? text : JSON.stringify(JSON.parse(text), null, 2));
}

/** The tokens of a pointer; none for a text that is no pointer. */
export function tokensOf(path: string): readonly string[] {
  try {
    return parse(path);
  } catch {
    return [];
  }
}
