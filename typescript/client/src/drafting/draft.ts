// A draft: what an app reads and writes in one transaction, over a view that does not change (NURSERY-2).
import { limitExceeded, StemmaError } from "../errors.ts";
import { ABSENT, type Cached, isNothing, type Shown, type ShownLayer, type Seen, UNKNOWN } from "../nursery/entities.ts";
import type { CommitPlan, CommitWrite } from "../nursery/plans.ts";
import { sortedIds } from "../nursery/view.ts";
import { entityId, idPrefix } from "../values/ids.ts";
import type { Json } from "../values/json.ts";
import { found, type Limits, takeNote, takePatch, takePath, takeValue } from "./inputs.ts";
import { Reads } from "./reads.ts";
import { claim, deleteStep, type DraftState, type DraftStep, patchStep, putStep, type StepBase, updateStep } from "./steps.ts";

/** In the place of an answer: ask the server, tell the draft with `learn` or `learnListing`, and try again. */
export const MISSING: unique symbol = Symbol("missing");

/** An immutable view, captured when the transaction starts (NURSERY-2). */
export interface ViewLike {
  readonly to: number;
  readonly branch: string;
  shown(id: string): Shown | undefined;
  listing(prefix: string): ReadonlyMap<string, Shown> | undefined;
  layersUnder(prefix: string): Map<string, readonly ShownLayer[]>;
  replayed(id: string, base: Json | typeof ABSENT): Shown;
}

/** A step in its place among all steps of the draft, and what it writes, as soon as that is known. */
interface DraftEntry {
  readonly step: DraftStep;
  write: CommitWrite | undefined;
}

/** One entity in a draft. What waits until it is known what is there comes before all that does not (NURSERY-8). */
class EntityDraft {
  state: DraftState;
  private waiting: DraftEntry[] = [];
  ground: StepBase;
  held: Cached | undefined;

  constructor(ground: StepBase, held: Cached | undefined) {
    this.ground = ground;
    this.held = held;
    this.state = { value: ground.shown.value, isOwn: false };
  }

  get isKnown(): boolean {
    return this.ground.shown.value !== UNKNOWN;
  }

  /** Whether something waits that cannot be sent as it is. */
  get isMissing(): boolean {
    return !this.isKnown && this.waiting.some((entry) => !entry.step.blind);
  }

  /** What is there. What was known before stays: a transaction reads one view. */
  learn(shown: Shown, held: Cached | undefined): void {
    if (this.isKnown) return;
    this.ground = { ...this.ground, shown };
    this.held = held;
  }

  /** Does the step, or lets it wait; undefined if it comes to nothing. */
  take(step: DraftStep): DraftEntry | undefined {
    this.settle();
    if (step.needsBase && this.state.value === UNKNOWN) {
      const entry: DraftEntry = { step, write: step.write };
      this.waiting.push(entry);
      this.state = step.ahead ?? this.state;
      return entry;
    }
    const [state, write] = step.onto(this.state, this.ground);
    this.state = state;
    return write === undefined ? undefined : { step, write };
  }

  /** Does what waited, once it is known what is there; if one of it cannot be done, this throws each time. */
  settle(): void {
    if (!this.isKnown || !(this.waiting.length || this.state.value === UNKNOWN)) return;
    let state: DraftState = { value: this.ground.shown.value, isOwn: false };
    const writes = this.waiting.map((entry) => {
      const [next, write] = entry.step.onto(state, this.ground);
      state = next;
      return write;
    });
    for (const [index, entry] of this.waiting.entries()) entry.write = writes[index];
    this.waiting = [];
    if (!this.state.isOwn) this.state = state;
  }
}

interface Learned {
  readonly shown: Shown;
  readonly held: Cached | undefined;
}

/** Records reads and writes, and comes to a plan that is never refused as `undeclared` (COMMIT-3). */
export class TransactionDraft {
  private readonly view: ViewLike;
  private readonly limits: Limits;
  private readonly note: Json | undefined;
  private readonly reads: Reads;
  private readonly pages = new Map<string, EntityDraft>();
  private readonly entries: DraftEntry[] = [];
  private readonly steps: [string, DraftStep][] = [];
  private readonly listings = new Map<string, Map<string, Learned>>();
  /** True once the app has read anything, or seen an error: from then on the draft stays on its view. */
  isObserved = false;

  constructor(view: ViewLike, limits: Limits, note?: unknown) {
    this.view = view;
    this.limits = limits;
    this.note = note === undefined ? undefined : takeNote(note, limits);
    this.reads = new Reads(limits);
  }

  // ------------------------------------------------------------ reading

  /** What is at the path, or undefined; `MISSING` if the server has to be asked first. Declares the read. */
  get(id: string, path = ""): Json | undefined | typeof MISSING {
    const tokens = takePath(path, this.limits);
    const page = this.page(id);
    this.settle(page);
    const { value } = page.state;
    if (value === UNKNOWN) return MISSING;
    claim(page.ground, page.state, path);
    this.isObserved = true;
    return value === ABSENT ? undefined : found(value, tokens);
  }

  /** All entities whose ids begin so, by id; `MISSING` if the server has to be asked first (COMMIT-2). */
  listing(prefix: string): Map<string, Json> | typeof MISSING {
    idPrefix(prefix, this.limits.id_bytes_max);
    const shown = this.listed(prefix);
    if (shown === undefined) return MISSING;
    const all = new Map<string, Seen>([...shown].map(([id, one]) => [id, one.value]));
    for (const [id, page] of this.pages) {
      if (!id.startsWith(prefix)) continue;
      this.settle(page);
      all.set(id, page.state.value);
    }
    this.isObserved = true;
    const layers = this.view.layersUnder(prefix);
    for (const [id, one] of shown) layers.set(id, one.layers); // what was learned may let a layer apply
    this.reads.declarePrefix(prefix, this.view.to, layers);
    const result = new Map<string, Json>();
    for (const id of sortedIds(all.keys())) {
      const value = all.get(id)!;
      if (!isNothing(value)) result.set(id, value);
    }
    return result;
  }

  /** What the server said about an entity, as of the version of the view or as of `held.asOf`. */
  learn(id: string, held: Cached): void {
    const learned = this.learned(id, held);
    this.page(id).learn(learned.shown, learned.held);
  }

  /** All that is confirmed under a prefix at the version of the view; what is not among them is not there. */
  learnListing(prefix: string, entities: ReadonlyMap<string, Cached>): void {
    const listing = new Map([...entities].map(([id, held]) => [id, this.learned(id, held)]));
    for (const id of this.view.layersUnder(prefix).keys()) {
      if (!listing.has(id)) listing.set(id, this.learnedAbsent(id));
    }
    this.listings.set(prefix, listing);
    for (const [id, page] of this.pages) {
      if (!id.startsWith(prefix)) continue;
      const { shown, held } = listing.get(id) ?? this.learnedAbsent(id);
      page.learn(shown, held);
    }
  }

  // ------------------------------------------------------------ writing

  /** The whole value. It claims that the entity is as it was in the view, whether that is known here or not. */
  set(id: string, value: unknown, blind = false): void {
    const page = this.page(id);
    this.take(page, putStep(id, takeValue(value, this.limits), blind));
  }

  /** The whole value of an entity that is not there; else `already_exists`. */
  create(id: string, value: unknown): void {
    const page = this.page(id);
    this.take(page, putStep(id, takeValue(value, this.limits), false, true));
  }

  /** The operations on what is there (PATCH-1). Without operations nothing is written. */
  patch(id: string, operations: unknown, blind = false): void {
    const page = this.page(id);
    const taken = takePatch(operations, this.limits);
    if (taken.operations.length) this.take(page, patchStep(id, taken, blind));
  }

  /** Another value for an entity that is there, written as a small patch; nothing if it is equal. */
  update(id: string, value: unknown): void {
    const page = this.page(id);
    this.take(page, updateStep(id, takeValue(value, this.limits)));
  }

  /** Adds to a number. It claims nothing about the number, so that increments never collide (COMMIT-3). */
  increment(id: string, path: string, by: number | bigint = 1, blind = false): void {
    takePath(path, this.limits);
    this.patch(id, [{ op: "increment", path, by }], blind);
  }

  /** Takes the entity away; `not_found` if it is known not to be there. */
  delete(id: string, blind = false): void {
    const page = this.page(id);
    this.take(page, deleteStep(id, blind));
  }

  // ------------------------------------------------------------ the end

  /** The same writes on a later view. The app sees no difference as long as it has read nothing. */
  movedTo(view: ViewLike): TransactionDraft {
    const moved = new TransactionDraft(view, this.limits, this.note);
    for (const [id, step] of this.steps) moved.take(moved.page(id), step);
    return moved;
  }

  /** What must be learned before `plan`. */
  missing(): string[] {
    return [...this.pages].filter(([, page]) => page.isMissing).map(([id]) => id);
  }

  /** What the draft comes to. Judges what has waited; `not_in_view` if something is still missing. */
  plan(): CommitPlan {
    for (const [id, page] of this.pages) {
      if (page.isMissing) throw new StemmaError("not_in_view", { id });
      page.settle();
    }
    const writes = this.entries.map((entry) => entry.write).filter((write) => write !== undefined);
    const bases: [string, Cached][] = [];
    for (const id of new Set(writes.map((write) => write.id))) {
      const held = this.pages.get(id)!.held;
      if (held !== undefined) bases.push([id, held]);
    }
    const note = this.note === undefined ? {} : { note: this.note };
    return { branch: this.view.branch, writes, reads: this.reads.planned(), bases, ...note };
  }

  // ------------------------------------------------------------ pages

  private take(page: EntityDraft, step: DraftStep): void {
    const bound = this.limits.operations_max;
    if (this.entries.length >= bound) throw limitExceeded("operations_max", bound, bound + 1);
    const entry = this.observing(() => page.take(step));
    this.steps.push([page.ground.id, step]);
    if (entry !== undefined) this.entries.push(entry);
  }

  private settle(page: EntityDraft): void {
    this.observing(() => page.settle());
  }

  /** An app that catches an error has learned what is there. */
  private observing<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      this.isObserved = true;
      throw error;
    }
  }

  private page(id: string): EntityDraft {
    return this.pages.get(id) ?? this.open(entityId(id, this.limits.id_bytes_max));
  }

  /** What was learned with a listing is as of the view; what the view holds may be older. */
  private open(id: string): EntityDraft {
    const unknown: Shown = { value: UNKNOWN, basis: this.view.to, layers: [] };
    const { shown, held } = this.listedOne(id) ?? { shown: this.view.shown(id) ?? unknown, held: undefined };
    const { limits, reads, view } = this;
    const page = new EntityDraft({ id, shown, branch: view.branch, limits, reads }, held);
    this.pages.set(id, page);
    return page;
  }

  private listedOne(id: string): Learned | undefined {
    for (const [prefix, listing] of this.listings) {
      if (id.startsWith(prefix)) return listing.get(id) ?? this.learnedAbsent(id);
    }
    return undefined;
  }

  private listed(prefix: string): ReadonlyMap<string, Shown> | undefined {
    for (const [known, listing] of this.listings) {
      if (!prefix.startsWith(known)) continue;
      return new Map([...listing].filter(([id]) => id.startsWith(prefix)).map(([id, one]) => [id, one.shown]));
    }
    return this.view.listing(prefix);
  }

  private learned(id: string, held: Cached): Learned {
    const basis = held.asOf ?? this.view.to;
    return { shown: { ...this.view.replayed(id, held.value), basis }, held };
  }

  private learnedAbsent(id: string): Learned {
    return { shown: { ...this.view.replayed(id, ABSENT), basis: this.view.to }, held: undefined };
  }
}
