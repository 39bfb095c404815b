// Stored text made safe to look at (CONSOLE-5): invisible and direction-changing characters are written out. Pure.

// Controls, soft hyphen, Arabic letter mark, zero-width and bidi marks, line separators, embeddings, isolates, BOM, tags.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udfff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** What is drawn of one text at most; the rest is named by its size. */
export const SHOWN_MAX = 4_000;

export function visible(text: string): string {
  return text.replace(HIDDEN, (found) => `⟨U+${found.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** The same JSON with escapes in place of what is hidden, so that it can be edited (CONSOLE-5). */
export function escaped(json: string): string {
  return json.replace(HIDDEN, (found) => found.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
}

/** In one line: line breaks and tabs are written out too. */
export function inLine(text: string, max = 200): string {
  return visible(cut(text, max).replaceAll("\n", "⏎").replaceAll("\t", "⇥"));
}

export function cut(text: string, max = SHOWN_MAX): string {
  if (text.length <= max) return text;
  const end = /[\ud800-\udbff]/.test(text[max - 1]!) ? max - 1 : max;
  return `${text.slice(0, end)}… (${grouped(text.length)} characters)`;
}

const GROUPED = new Intl.NumberFormat("en-US");

export function grouped(number: number | bigint): string {
  return GROUPED.format(number);
}

export function plural(count: number, noun: string, more = `${noun}s`): string {
  return `${grouped(count)} ${count === 1 ? noun : more}`;
}

export function shortDid(did: string): string {
  const key = did.startsWith("did:key:") ? did.slice(8) : did;
  return visible(key.length > 12 ? `${key.slice(0, 4)}…${key.slice(-4)}` : key);
}

const UNITS: readonly (readonly [string, number])[] = [["y", 31_536_000], ["mo", 2_592_000], ["d", 86_400], ["h", 3_600], ["m", 60]];

/** `3 m ago`; within a minute `now`. */
export function ago(time: number, now: number): string {
  const seconds = Math.max(0, (now - time) / 1_000);
  const unit = UNITS.find(([, size]) => seconds >= size);
  return unit === undefined ? "now" : `${Math.floor(seconds / unit[1])}${unit[0]} ago`;
}

const SHORT = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const LONG = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });

export function shortTime(time: number): string {
  return SHORT.format(time);
}

export function longTime(time: number): string {
  return LONG.format(time);
}
