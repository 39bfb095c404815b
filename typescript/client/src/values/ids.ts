// Names of things: entity ids, branch names, DIDs (MODEL-1, MODEL-2).
import { StemmaError } from "../errors.ts";

export const MAIN = "main";
const BRANCH = /^[A-Za-z0-9._/-]{1,128}$/;
// What is not seen, or changes how the rest is seen: Unicode 14.0 categories Cc, Cf, Zs, Zl, Zp, Cs, noncharacters.
const UNSEEN =
  "\\x80-\\xa0\\xad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u1680\\u180e\\u2000-\\u200f\\u2028-\\u202f" +
  "\\u205f-\\u2064\\u2066-\\u206f\\u3000\\ud800-\\udfff\\ufdd0-\\ufdef\\ufeff\\ufff9-\\ufffb\\ufffe\\uffff" +
  "\\u{110bd}\\u{110cd}\\u{13430}-\\u{13438}\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0001}\\u{e0020}-\\u{e007f}" +
  Array.from({ length: 16 }, (_, plane) => (plane + 1).toString(16)).map((p) => `\\u{${p}fffe}\\u{${p}ffff}`).join("");
const CHARACTER = `[^\\x00-\\x20\\x7f<>"{}|\\\\^\`${UNSEEN}]`;
const URI = new RegExp(`^[A-Za-z][A-Za-z0-9+.\\-]*:${CHARACTER}+$`, "u");
const PREFIX = new RegExp(`^${CHARACTER}*$`, "u");
const encoder = new TextEncoder();

/** The text as an entity id, or `invalid_id` saying what is wrong with it. */
export function entityId(text: string, bytesMax: number): string {
  if (typeof text !== "string") throw badId(String(text), `it is of type ${typeof text}, not a string`);
  if (!URI.test(text)) throw badId(text, "it is not a URI with a scheme");
  return within(text, bytesMax);
}

/** The beginning of entity ids, without the `*`; the empty prefix means every entity. */
export function idPrefix(text: string, bytesMax: number): string {
  if (typeof text !== "string" || !PREFIX.test(text)) {
    throw badId(String(text), "a prefix holds a character that no id may hold");
  }
  return within(text, bytesMax);
}

/** The text as a branch or tag name, or `invalid_name`. */
export function branchName(text: string): string {
  if (typeof text !== "string" || !BRANCH.test(text)) {
    throw new StemmaError("invalid_name", { name: shown(String(text)) });
  }
  return text;
}

function within(text: string, bytesMax: number): string {
  const size = text.length * 3 > bytesMax ? encoder.encode(text).length : 0;
  if (size > bytesMax) throw badId(text, `it has ${size} bytes and at most ${bytesMax} are allowed`);
  return text;
}

function badId(id: string, why: string): StemmaError {
  return new StemmaError("invalid_id", { id: shown(id), why });
}

function shown(text: string): string {
  return text.slice(0, 80).toWellFormed();
}
