// The errors of StemmaDB: one class, told apart by `code`; the codes are those of docs/spec/04-protocol.md.
import { ERRORS } from "./constants.ts";
import type { Current, StaleRead } from "./wire/messages.ts";
import type { Json } from "./values/json.ts";

export type Details = { readonly [key: string]: unknown };

export class StemmaError extends Error {
  readonly code: string;
  readonly details: Details;

  constructor(code: string, details: Details = {}, message?: string) {
    super(message ?? sentence(code, details));
    this.name = "StemmaError";
    this.code = code;
    this.details = details;
  }

  /** Whether the same request can succeed later. */
  get retriable(): boolean {
    return ERRORS[this.code]?.[1] ?? false;
  }
}

/** What the commit read has changed since: the stale reads, and the values now as far as the server sent them. */
export class Conflict extends StemmaError {
  readonly stale: readonly StaleRead[];
  readonly current: ReadonlyMap<string, Json>;

  constructor(details: Details, message: string | undefined, stale: readonly StaleRead[], current: readonly Current[]) {
    super("conflict", details, message);
    this.name = "Conflict";
    this.stale = stale;
    const values = current.filter((one) => one.body !== undefined).map((one) => [one.id, one.body!] as const);
    this.current = new Map(values);
  }
}

/** An error that a server sent; a code that is not known here counts as `internal`. */
export function restored(one: { code: string; message: string; details?: Details }): StemmaError {
  if (one.code === "conflict") {
    const stale = (one.details?.["stale"] ?? []) as StaleRead[];
    return new Conflict(one.details ?? {}, one.message, stale, []);
  }
  return new StemmaError(Object.hasOwn(ERRORS, one.code) ? one.code : "internal", one.details ?? {}, one.message);
}

export function limitExceeded(bound: string, maximum: number, actual: number): StemmaError {
  return new StemmaError("limit_exceeded", { bound, maximum, actual });
}

function sentence(code: string, details: Details): string {
  const known = ERRORS[code];
  if (known === undefined) return code;
  return known[0].replace(/\{(\w+)\}/g, (_, name: string) => String(details[name] ?? ""));
}
