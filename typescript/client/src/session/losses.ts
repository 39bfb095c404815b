// What a restored server has lost: commits seen confirmed here that it does not have (RESUME-4).
import type { ConfirmedCommit } from "../journal/port.ts";
import { type CommitName, nameKey } from "../nursery/entities.ts";
import type { Kept } from "../wire/messages.ts";

const CHARACTERS_MAX = 16 * 1024 * 1024;

/** The last confirmed commits with their content, within a bound on their number and on their length. */
export class Losses {
  private confirmed: ConfirmedCommit[];
  private characters: number;

  constructor(confirmed: readonly ConfirmedCommit[]) {
    this.confirmed = [...confirmed];
    this.characters = confirmed.reduce((sum, one) => sum + one.content.length, 0);
  }

  /** Takes commits just confirmed; gives the oldest ones that are beyond a bound and no longer held. */
  add(commits: readonly ConfirmedCommit[], countMax: number): CommitName[] {
    for (const commit of commits) {
      this.confirmed.push(commit);
      this.characters += commit.content.length;
    }
    let gone = 0;
    while (this.confirmed.length - gone > countMax || this.characters > CHARACTERS_MAX) {
      this.characters -= this.confirmed[gone]!.content.length;
      gone += 1;
    }
    return this.confirmed.splice(0, gone).map((one) => one.name);
  }

  /** Which commits the server's history does not have; these no longer count as confirmed. */
  compare(kept: readonly Kept[], session: string, countMax: number): ConfirmedCommit[] {
    const lost = lostOf(this.confirmed, kept, session, countMax);
    const missing = new Set(lost.map((one) => nameKey(one.name)));
    this.confirmed = this.confirmed.filter((one) => !missing.has(nameKey(one.name)));
    return lost;
  }
}

/** Judges each commit by what `kept` covers. One that is older than that is unknown, and never reported as lost. A
 * commit's hash covers the whole log before it, so one that both sides have vouches for every version up to its own. */
export function lostOf(
  confirmed: readonly ConfirmedCommit[], kept: readonly Kept[], session: string, countMax: number,
): ConfirmedCommit[] {
  const listed = new Set(kept.map((one) => `${nameKey({ session: one.session ?? session, local: one.local })} ${one.hash}`));
  const shared = Math.max(0, ...confirmed.filter((one) => listed.has(`${nameKey(one.name)} ${one.hash}`)).map((one) => one.version));
  const covered = coveredSince(kept.map((one) => one.version), countMax);
  const own = kept.filter((one) => one.session === undefined).map((one) => one.version);
  const ownCovered = Math.min(covered, coveredSince(own, countMax));
  return confirmed.filter((one) => {
    const since = one.name.session === session ? ownCovered : covered;
    return one.version > shared && one.version >= since;
  });
}

/** The version from which on nothing is left out: a list that does not reach its bound is complete. */
function coveredSince(versions: readonly number[], countMax: number): number {
  const newest = [...versions].sort((one, other) => other - one).slice(0, countMax);
  return newest.length < countMax ? 0 : newest.at(-1)!;
}
