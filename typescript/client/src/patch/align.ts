// Which elements of two arrays correspond: the fewest insertions and removals, while they are few (E. Myers, 1986).
const EDITS_MAX = 64;
const COMPARISONS_MAX = 1_000_000;

/** The elements `oldStart..oldEnd` of the old array stand where `newStart..newEnd` of the new one do. */
export interface Hunk {
  readonly oldStart: number;
  readonly oldEnd: number;
  readonly newStart: number;
  readonly newEnd: number;
}
type Furthest = Map<number, number>;

/** Where the two differ, in order; all in one hunk where they differ too much to look closer. */
export function align(old: readonly string[], now: readonly string[]): Hunk[] {
  const rounds = search(old, now);
  if (rounds === undefined) return [{ oldStart: 0, oldEnd: old.length, newStart: 0, newEnd: now.length }];
  return join(traceBack(rounds, old.length - now.length));
}

/** How far one gets on each diagonal, as it was before each round, until the end of both is reached. */
function search(old: readonly string[], now: readonly string[]): Furthest[] | undefined {
  const furthest: Furthest = new Map([[1, 0]]);
  const rounds: Furthest[] = [];
  let comparisons = 0;
  for (let edits = 0; edits <= EDITS_MAX; edits += 1) {
    rounds.push(new Map(furthest));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const start = inserts(furthest, edits, diagonal)
        ? furthest.get(diagonal + 1)!
        : furthest.get(diagonal - 1)! + 1;
      let reached = start;
      const end = Math.min(old.length, now.length + diagonal);
      while (reached < end && old[reached] === now[reached - diagonal]) reached += 1;
      furthest.set(diagonal, reached);
      comparisons += reached - start + 1;
      if (diagonal === old.length - now.length && reached >= old.length) return rounds;
    }
    if (comparisons > COMPARISONS_MAX) return undefined;
  }
  return undefined;
}

/** Whether the better edit towards this diagonal is an insertion of a new element. */
function inserts(furthest: Furthest, edits: number, diagonal: number): boolean {
  if (Math.abs(diagonal) === edits) return diagonal === -edits;
  return furthest.get(diagonal - 1)! < furthest.get(diagonal + 1)!;
}

/** The edits of the way that was found, each a hunk of one element, in order. */
function traceBack(rounds: readonly Furthest[], end: number): Hunk[] {
  const edits: Hunk[] = [];
  let diagonal = end;
  for (let number = rounds.length - 1; number > 0; number -= 1) {
    const furthest = rounds[number]!;
    const isInsert = inserts(furthest, number, diagonal);
    diagonal += isInsert ? 1 : -1;
    const old = furthest.get(diagonal)!;
    const now = old - diagonal;
    edits.push({ oldStart: old, oldEnd: old + (isInsert ? 0 : 1), newStart: now, newEnd: now + (isInsert ? 1 : 0) });
  }
  return edits.reverse();
}

/** Neighbours with nothing equal between them become one hunk. */
function join(edits: readonly Hunk[]): Hunk[] {
  const hunks: Hunk[] = [];
  for (const edit of edits) {
    const before = hunks.at(-1);
    if (before !== undefined && before.oldEnd === edit.oldStart && before.newEnd === edit.newStart) {
      hunks[hunks.length - 1] = { ...before, oldEnd: edit.oldEnd, newEnd: edit.newEnd };
    } else hunks.push(edit);
  }
  return hunks;
}
