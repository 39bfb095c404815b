// Entities as the server has them, many at once and all of one version: what reads at the head and in the past stand on.
import { StemmaError } from "../errors.ts";
import type { Cached } from "../nursery/entities.ts";
import type { Requests, RequestType, Fields } from "../session/requests.ts";
import { wholeBody } from "../wire/entities.ts";
import type { Answers, Query, QueryAnswer, UnresolvedLink } from "../wire/messages.ts";

const STARTS_MAX = 3;
const IDLE_PAGES_MAX = 64;

export interface Snapshot {
  readonly version: number;
  readonly entities: Map<string, Cached>;
  readonly unresolved: readonly UnresolvedLink[];
  readonly erased: readonly string[];
}

/** The whole answer to a query; one without a schema comes in pages, which the first pins to its version. */
export async function fetchQuery(requests: Requests, query: Query): Promise<Snapshot> {
  for (let start = 1; ; start += 1) {
    try {
      return await fetchPages(requests, query);
    } catch (error) {
      // A server that was restored does not know the version of the pages before (RESUME-4).
      const isRestored = error instanceof StemmaError && error.code === "malformed" && error.details["path"] === "/after";
      if (!isRestored || start === STARTS_MAX) throw error;
    }
  }
}

async function fetchPages(requests: Requests, query: Query): Promise<Snapshot> {
  const entities = new Map<string, Cached>();
  const unresolved: UnresolvedLink[] = [];
  const erased: string[] = [];
  let version: number | undefined;
  let after: string | undefined;
  let idle = 0;
  do {
    const answer: QueryAnswer = await requests.ask("query", { query, ...(after === undefined ? {} : { after }) });
    version ??= answer.version;
    if (answer.version !== version) throw malformed("/version", `a page of version ${answer.version} follows one of ${version}`);
    const before = entities.size;
    for (const one of answer.entities ?? []) entities.set(one.id, { value: wholeBody(one), version: one.version, hash: one.hash, asOf: version });
    unresolved.push(...(answer.unresolved ?? []));
    erased.push(...(answer.erased ?? []));
    after = answer.next;
    idle = entities.size > before ? 0 : idle + 1;
    if (after !== undefined && idle > IDLE_PAGES_MAX) throw malformed("/next", `${idle} pages in a row brought nothing, and another one is announced`);
  } while (after !== undefined);
  return { version, entities, unresolved, erased };
}

function malformed(path: string, why: string): StemmaError {
  return new StemmaError("malformed", { path, why });
}

/** These entities at a version, or all of them as the head is when the first of them is read. */
export async function fetchIds(requests: Requests, branch: string, ids: readonly string[], version?: number): Promise<Snapshot> {
  const { roots_max, schema_bytes_max, id_bytes_max } = requests.limits;
  const size = Math.max(1, Math.min(roots_max, Math.floor(schema_bytes_max / (2 * id_bytes_max))));
  let found: Snapshot | undefined;
  for (let at = 0; at < ids.length; at += size) {
    const pinned = found?.version ?? version;
    const roots = ids.slice(at, at + size).map((id) => ({ id }));
    const more = await fetchQuery(requests, { roots, branch, ...(pinned === undefined ? {} : { version: pinned }) });
    found ??= more;
    for (const [id, cached] of more.entities) found.entities.set(id, cached);
  }
  return found!;
}

/** The entries of a list, page by page. */
export async function* pages<T extends RequestType, E>(
  requests: Requests, type: T, fields: Fields<T>, pick: (answer: Answers[T]) => readonly E[] | undefined,
): AsyncGenerator<E, void, undefined> {
  let after: string | undefined;
  do {
    const answer = await requests.ask(type, { ...fields, ...(after === undefined ? {} : { after }) } as Fields<T>);
    yield* pick(answer) ?? [];
    after = (answer as { next?: string }).next;
  } while (after !== undefined);
}
