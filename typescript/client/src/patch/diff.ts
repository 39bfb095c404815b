// The small patch that leads from one value to another (for `tx.update`, PATCH-3).
import { LIMITS } from "../constants.ts";
import { equal, isObject, type Json, type JsonObject, own, stringify } from "../values/json.ts";
import { encodedLength } from "../values/msgpack.ts";
import { escape } from "../values/pointer.ts";
import { align, type Hunk } from "./align.ts";

type Step = JsonObject;
type Items = readonly Json[];

/** The steps take more bytes than what they would save. */
class TooLarge extends Error {}

/** Operations that lead from `old` to a value equal to `now`; none if the two are equal. */
export function diff(old: Json, now: Json): Step[] {
  const changes = new Changes(Infinity);
  try {
    changes.between(old, now, "");
  } catch (error) {
    if (!(error instanceof TooLarge)) throw error;
    return [step("replace", "", now)];
  }
  return changes.steps;
}

/** Steps that together stay within a number of bytes; `TooLarge` as soon as they do not. */
class Changes {
  steps: Step[] = [];
  private bytesLeft: number;

  constructor(bytesMax: number) {
    this.bytesLeft = bytesMax;
  }

  between(old: Json, now: Json, path: string): void {
    if (isObject(old) && isObject(now)) this.betweenObjects(old, now, path);
    else if (Array.isArray(old) && Array.isArray(now)) this.betweenArrays(old, now, path);
    else if (!equal(old, now)) this.append(step("replace", path, now));
  }

  private betweenObjects(old: JsonObject, now: JsonObject, path: string): void {
    for (const key of Object.keys(old)) {
      if (!Object.hasOwn(now, key)) this.append({ op: "remove", path: `${path}/${escape(key)}` });
    }
    for (const key of Object.keys(now)) {
      const place = `${path}/${escape(key)}`;
      if (Object.hasOwn(old, key)) this.between(own(old, key)!, own(now, key)!, place);
      else this.append(step("add", place, own(now, key)!));
    }
  }

  private betweenArrays(old: Items, now: Items, path: string): void {
    const start = equalAhead(old, now);
    const common = equalAhead(old.slice(start).reverse(), now.slice(start).reverse());
    const removed = old.slice(start, old.length - common);
    const added = now.slice(start, now.length - common);
    const hunks = align(removed.map(stringify), added.map(stringify));
    if (hunks.length === 1) this.betweenRuns(removed, added, path, start);
    else if (hunks.length) this.betweenHunks(hunks, removed, added, path, start);
  }

  /** Hunk by hunk, each at its place in the new array, since those before it are new by then; or one splice. */
  private betweenHunks(hunks: Hunk[], removed: Items, added: Items, path: string, start: number): void {
    this.smaller(splice(path, start, removed.length, added), (changes) => {
      const waiting = [...hunks].reverse();
      for (let hunk = waiting.pop(); hunk !== undefined; hunk = waiting.pop()) {
        const ends = waiting.length ? moved(hunk, waiting.at(-1)!, removed, added) : undefined;
        if (ends !== undefined) {
          waiting.pop();
          const [from, to] = ends;
          changes.append({ op: "move", from: `${path}/${start + from}`, path: `${path}/${start + to}` });
          continue;
        }
        const [old, now] = [removed.slice(hunk.oldStart, hunk.oldEnd), added.slice(hunk.newStart, hunk.newEnd)];
        changes.betweenRuns(old, now, path, start + hunk.newStart);
      }
    });
  }

  /** Element by element, and a splice for those that have no counterpart; or one splice for all. */
  private betweenRuns(removed: Items, added: Items, path: string, start: number): void {
    const pairs = Math.min(removed.length, added.length);
    this.smaller(splice(path, start, removed.length, added), (changes) => {
      for (let index = 0; index < pairs; index += 1) {
        changes.between(removed[index]!, added[index]!, `${path}/${start + index}`);
      }
      if (removed.length !== added.length) {
        changes.append(splice(path, start + pairs, removed.length - pairs, added.slice(pairs)));
      }
    });
  }

  /** The finer changes, unless they take more bytes than the plain step. */
  private smaller(plain: Step, finer: (changes: Changes) => void): void {
    const trial = new Changes(encodedLength(plain));
    try {
      finer(trial);
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
      trial.steps = [plain];
    }
    for (const one of trial.steps) this.append(one);
  }

  private append(one: Step): void {
    this.bytesLeft -= encodedLength(one);
    this.steps.push(one);
    if (this.bytesLeft < 0 || this.steps.length > LIMITS.patch_operations_max) throw new TooLarge();
  }
}

function equalAhead(old: Items, now: Items): number {
  const end = Math.min(old.length, now.length);
  let count = 0;
  while (count < end && equal(old[count]!, now[count]!)) count += 1;
  return count;
}

/** From where to where, if the two hunks are one element that changed its place. */
function moved(hunk: Hunk, after: Hunk, removed: Items, added: Items): [number, number] | undefined {
  const sizes = [hunk, after].map((one) => `${one.oldEnd - one.oldStart}${one.newEnd - one.newStart}`).join();
  if (sizes === "10,01" && equal(removed[hunk.oldStart]!, added[after.newStart]!)) {
    return [hunk.newStart, after.newStart];
  }
  // It is taken out before it is put in, so it stands one place nearer than after the insertion.
  if (sizes === "01,10" && equal(removed[after.oldStart]!, added[hunk.newStart]!)) {
    return [after.newStart - 1, hunk.newStart];
  }
  return undefined;
}

function step(op: string, path: string, value: Json): Step {
  return { op, path, value };
}

/** A splice, or what does the same in fewer bytes. */
function splice(path: string, index: number, remove: number, added: Items): Step {
  if (remove + added.length === 1) {
    return added.length ? step("add", `${path}/${index}`, added[0]!) : { op: "remove", path: `${path}/${index}` };
  }
  return { op: "splice", path, index, remove, add: added };
}
