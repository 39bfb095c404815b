// The picture of the branches: which commits are drawn, and in which lane. Pure.
import type { BranchEntry, LogEntry } from "@stemmadb/client";
import { MAIN } from "../address.ts";

export const LANES_MAX = 12;

export interface Point {
  readonly version: number;
  readonly lane: number;
  readonly branch: string;
  /** A head, a fork, a merge or something else that is drawn as a line of its own. */
  readonly what: "head" | "fork" | "merge" | "tag" | "other";
  /** The lane that comes in (a merge) or goes out (a fork). */
  readonly other?: number | undefined;
  readonly commit?: LogEntry | undefined;
}

/** The points of the picture, newest first, and the lane of each branch. */
export function picture(branches: readonly BranchEntry[], structure: readonly LogEntry[]): { points: Point[]; lanes: Map<string, number> } {
  const order = [...branches].sort((one, other) => Number(other.name === MAIN) - Number(one.name === MAIN) || Number(one.deleted !== undefined) - Number(other.deleted !== undefined) || other.head - one.head);
  const lanes = new Map<string, number>([[MAIN, 0]]);
  for (const one of order) if (!lanes.has(one.name)) lanes.set(one.name, lanes.size);
  const lane = (name: string | undefined): number => Math.min(LANES_MAX, lanes.get(name ?? MAIN) ?? 0);
  const points: Point[] = [];
  const taken = new Set<number>();
  for (const commit of structure) {
    const about = commit.arguments as { kind: string; name?: string; parent?: string; source?: string; branch?: string } | undefined;
    if (about === undefined) continue;
    taken.add(commit.version);
    if (about.kind === "branch.create") points.push({ version: commit.version, lane: lane(about.name), branch: about.name!, what: "fork", other: lane(about.parent), commit });
    else if (about.kind === "merge") points.push({ version: commit.version, lane: lane(commit.branch), branch: commit.branch ?? MAIN, what: "merge", other: lane(about.source), commit });
    else if (about.kind.startsWith("tag")) points.push({ version: commit.version, lane: lane(about.branch), branch: about.branch ?? MAIN, what: "tag", commit });
    else points.push({ version: commit.version, lane: lane(commit.branch ?? about.name), branch: commit.branch ?? about.name ?? MAIN, what: "other", commit });
  }
  for (const one of branches) if (one.head > 0 && !taken.has(one.head)) points.push({ version: one.head, lane: lane(one.name), branch: one.name, what: "head" });
  for (const one of branches) {
    const hasFork = points.some((point) => point.what === "fork" && point.branch === one.name);
    if (one.name !== MAIN && !hasFork) points.push({ version: one.fork, lane: lane(one.name), branch: one.name, what: "fork", other: lane(one.parent) });
  }
  return { points: points.sort((one, other) => other.version - one.version || one.lane - other.lane), lanes };
}
