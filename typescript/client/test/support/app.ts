// An app in a process of its own that Python drives over stdio (`tests/support/faults_node.py`): it does what it reads,
// line by line, and says what happens, line by line. Each write has a name of its own, the mark: it is the note of the
// commit, and the commit makes the entity of the mark and counts one. Some also take a turn: they read it and set it.
import { createInterface } from "node:readline";
import { connect, type Draft, identityFromSeed, type Json, type Space, StemmaError, type Watch } from "../../src/index.ts";
import type { Settings } from "../../src/session/settings.ts";
import { fromBase64 } from "../../src/values/bytes.ts";

interface Given {
  readonly url: string;
  readonly space: string;
  readonly seed: string;
  readonly life: string;
  readonly settings: Partial<Settings>;
}

const [COUNT, TURN, MARKS] = ["urn:count", "urn:turn", "urn:mark:"];
/** How many undecided writes there are at most. */
const AHEAD = 16;
/** One of so many writes takes a turn. */
const TURNS = 3;

function say(event: string, facts: object = {}): void {
  process.stdout.write(`${JSON.stringify({ event, ...facts })}\n`);
}

class App {
  private readonly space: Space;
  private readonly life: string;
  private readonly watch: Watch<Json>;
  private readonly following = new Set<Promise<void>>();
  private made = 0;
  private isPouring = false;
  private pouring = Promise.resolve();

  constructor(space: Space, life: string) {
    this.space = space;
    this.life = life;
    this.watch = space.watch("urn:*");
  }

  async do(word: string): Promise<void> {
    if (word === "pour") await this.pour();
    else if (word === "settle") await this.settle();
    else say("shown", { entities: Object.fromEntries(this.watch.current()) });
  }

  private async pour(): Promise<void> {
    await this.watch.ready;
    this.isPouring = true;
    this.pouring = this.writeOn();
  }

  private async settle(): Promise<void> {
    this.isPouring = false;
    await this.pouring;
    await this.space.settled();
    await Promise.all(this.following);
    say("settled", { pending: this.space.pending().length, rejected: this.space.rejected().length });
  }

  private async writeOn(): Promise<void> {
    while (this.isPouring) {
      while (this.following.size >= AHEAD) await Promise.race(this.following);
      await this.write();
      await new Promise((resolve) => setImmediate(resolve)); // so that lines are read meanwhile
    }
  }

  private async write(): Promise<void> {
    const mark = `${this.life}-${(this.made += 1)}`;
    const turn = async (tx: Draft): Promise<void> => tx.set(TURN, { n: (await tx.get<number>(TURN, "/n"))! + 1 });
    const tx = await this.space.transaction(async (tx) => {
      tx.increment(COUNT, "/n");
      tx.set(MARKS + mark, { by: this.life });
      if (this.made % TURNS === 0) await turn(tx);
    }, { note: mark });
    const told = tx.confirmed().then(
      () => say("confirmed", { mark, version: tx.version }),
      (error: StemmaError) => {
        say("refused", { mark, code: error.code });
        tx.rejection!.drop();
      },
    ).finally(() => void this.following.delete(told));
    this.following.add(told);
  }
}

async function live(given: Given, lines: AsyncIterator<string>): Promise<void> {
  const signer = await identityFromSeed(fromBase64(given.seed));
  await using db = await connect(given.url, { signer, settings: given.settings });
  const app = new App(await db.space(given.space), given.life);
  say("open");
  for (let line = await lines.next(); !line.done; line = await lines.next()) await app.do((JSON.parse(line.value) as [string])[0]);
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const first = await lines.next();
if (!first.done) await live(JSON.parse(first.value) as Given, lines);
process.exit(); // node would wait for the other end of a connection that was given up as dead, for as long as TCP does
