// The address of a view (CONSOLE-1): which space, screen, branch and moment. Pure; names are query parameters.
export const SCREENS = ["entities", "entity", "commits", "branches", "merge", "diff", "live"] as const;
export type Screen = (typeof SCREENS)[number];
export type Params = { readonly [name: string]: string | undefined };

export interface Address {
  readonly did: string;
  readonly screen: Screen;
  readonly branch: string;
  readonly at: At;
  /** What is particular to the screen: prefix, id, path, tab and so on. */
  readonly params: Params;
}

/** `mark` is the beginning of the commit's hash, by which a link tells that it is of another history. */
export type At =
  | { readonly kind: "head" }
  | { readonly kind: "version"; readonly version: number; readonly mark?: string }
  | { readonly kind: "tag"; readonly name: string }
  | { readonly kind: "time"; readonly time: number; readonly text: string }
  | { readonly kind: "unreadable"; readonly text: string };

export const HEAD: At = { kind: "head" };
export const ROOT = "/console";
export const MAIN = "main";
const MARK_LETTERS = 12;
const VERSION = /^([0-9]{1,15})(?:\.([a-z2-7]{12}))?$/;
const DID = /^did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{44}$/;
const TIME = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)$/;

/** Whether a text may be the name of a space. The SDK takes any other for a local name, and would make that space. */
export function isDid(text: string): boolean {
  return DID.test(text);
}

export function parseAt(text: string | undefined): At {
  if (text === undefined || text === "" || text === "head") return HEAD;
  const version = VERSION.exec(text);
  if (version !== null) return { kind: "version", version: Number(version[1]), ...(version[2] === undefined ? {} : { mark: version[2] }) };
  if (text.startsWith("tag:")) return { kind: "tag", name: text.slice(4) };
  const time = TIME.test(text) ? Date.parse(text.replace(" ", "T")) : NaN;
  return Number.isNaN(time) ? { kind: "unreadable", text } : { kind: "time", time, text };
}

export function writeAt(at: At): string | undefined {
  if (at.kind === "head") return undefined;
  if (at.kind === "version") return at.mark === undefined ? String(at.version) : `${at.version}.${at.mark}`;
  return at.kind === "tag" ? `tag:${at.name}` : at.text;
}

/** The letters of a hash in its text form `b3:...` that stand in an address. */
export function markOf(hash: string): string {
  return hash.slice(3, 3 + MARK_LETTERS);
}

export function parse(path: string, search: string): Address | undefined {
  const [, root, did, screen] = path.split("/");
  if (`/${root}` !== ROOT || did === undefined || !did.startsWith("did%3A") && !did.startsWith("did:")) return undefined;
  const given = new URLSearchParams(search);
  const params: { [name: string]: string } = Object.create(null) as { [name: string]: string };
  for (const [name, value] of given) params[name] ??= value;
  const { b, at, ...rest } = params;
  const known = SCREENS.find((one) => one === screen) ?? "entities";
  return { did: decoded(did), screen: known, branch: b || MAIN, at: parseAt(at), params: rest };
}

export function write(address: Address): string {
  const query = new URLSearchParams();
  if (address.branch !== MAIN) query.set("b", address.branch);
  const at = writeAt(address.at);
  if (at !== undefined) query.set("at", at);
  for (const [name, value] of Object.entries(address.params)) if (value) query.set(name, value);
  const text = query.toString();
  return `${ROOT}/${encodeURIComponent(address.did).replaceAll("%3A", ":")}/${address.screen}${text && `?${text}`}`;
}

/** `draft@90`: a branch at a moment. The last `@` divides. */
export function parseSide(text: string | undefined): { branch: string; at: At } | undefined {
  if (!text) return undefined;
  const divide = text.lastIndexOf("@");
  if (divide === -1) return { branch: text, at: HEAD };
  return { branch: text.slice(0, divide) || MAIN, at: parseAt(text.slice(divide + 1)) };
}

export function writeSide(branch: string, version: number | string): string {
  return `${branch}@${version}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
