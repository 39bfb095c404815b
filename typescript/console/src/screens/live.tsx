// What is written, as it flows. It follows the head and reads the log behind it, so that the size of a space does not
// matter: at most 1,000 rows stay, it draws at most ten times a second, and counts the rest (CONSOLE-6).
import type { LogEntry } from "@stemmadb/client";
import { type ReactElement, useEffect, useRef, useState } from "react";
import { type Questions } from "../data/questions.ts";
import { useView } from "../data/view.ts";
import { Icon } from "../parts/icons.tsx";
import { Rows } from "../parts/rows.tsx";
import { State, T, Version, When, Who } from "../parts/text.tsx";
import { grouped } from "../text.ts";
import { brief, noteText } from "../values.ts";
import { titleOf } from "./commits.tsx";
import { patchText } from "./entity.tsx";

const ROWS_MAX = 1_000;
const TURN_MS = 100;
const PAGE = 200;
const RATE_MS = 5_000;

export interface Flow {
  readonly rows: readonly FlowRow[];
  readonly skipped: number;
  readonly rate: number;
}
interface FlowRow {
  readonly key: string;
  readonly commit: LogEntry;
  readonly id: string | undefined;
  readonly kind: string;
  readonly text: string;
}

const NOTHING: Flow = { rows: [], skipped: 0, rate: 0 };

export function LiveScreen(): ReactElement {
  const { questions, address, space, go, href } = useView();
  const prefix = address.params["prefix"] ?? "";
  const [isPaused, setPaused] = useState(false);
  const [flow, setFlow] = useState<Flow>(NOTHING);
  const paused = useRef(isPaused);
  paused.current = isPaused;
  useEffect(() => {
    setFlow(NOTHING);
    return follow(questions, address.branch, prefix, () => space.status().asOf?.version ?? 0, () => paused.current, setFlow);
  }, [questions, address.branch, prefix, space]);
  return (
    <section className="pane live" aria-label="Live">
      <div className="pane-head">
        <h1>Live</h1>
        <form className="jump" onSubmit={(event) => (event.preventDefault(), go({ params: { prefix: (new FormData(event.currentTarget).get("prefix") as string).replace(/\*$/, "") || undefined } }))}><input name="prefix" aria-label="Prefix" placeholder="Prefix…" defaultValue={prefix} spellCheck={false} /></form>
        <span className={`rate ${flow.rate > 0 && !isPaused ? "flows" : ""}`} data-testid="rate"><span className="dot" aria-hidden="true" /> {isPaused ? "paused" : `${flow.rate >= 10 ? Math.round(flow.rate) : flow.rate.toFixed(1)}/s`}</span>
        {flow.skipped > 0 && <span className="hint">{grouped(flow.skipped)} went by undrawn</span>}
        <span className="grow" />
        <button className="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}><Icon name={isPaused ? "play" : "pause"} /> {isPaused ? "Go on" : "Pause"}</button>
      </div>
      {flow.rows.length === 0 ? <State icon={<Icon name="live" size={32} />} title="Waiting for the next commit">Everything that is written{prefix ? <> under <T>{prefix}</T></> : ""} appears here as it happens.</State> : (
        <Rows items={flow.rows} keyOf={(one) => one.key} height={34} label="Changes as they happen"
          row={(one) => ({
            className: "flow", onOpen: () => one.id !== undefined && go({ screen: "entity", params: { id: one.id } }),
            content: <>
              <span className={`sign ${one.kind}`}>{{ set: "+", patch: "~", delete: "−" }[one.kind] ?? "◇"}</span>
              <span className="flow-id">{one.id === undefined ? <span className="badge kind">{one.commit.kind}</span> : <a href={href({ screen: "entity", params: { id: one.id } })}><T max={80}>{one.id}</T></a>}</span>
              <span className="flow-text"><T max={160}>{one.text}</T></span>
              <a className="flow-version" href={href({ screen: "commits", params: { c: String(one.commit.version) } })}><Version version={one.commit.version} /></a>
              <Who did={one.commit.author} />
              <When time={one.commit.time} />
            </>,
          })} />
      )}
    </section>
  );
}

/** Reads what is new in the log each time the head has moved; returns how to stop. */
function follow(questions: Questions, branch: string, prefix: string, head: () => number, isPaused: () => boolean, show: (flow: Flow) => void): () => void {
  let seen = -1;
  let rows: readonly FlowRow[] = [];
  let skipped = 0;
  let timer: ReturnType<typeof setTimeout>;
  let isOver = false;
  const counted: { time: number; rows: number }[] = [];
  let before = "";
  const turn = async (): Promise<void> => {
    const now = head();
    const wanted = seen === -1 ? 30 : ROWS_MAX;
    if (now > seen && !isPaused()) {
      const from = Math.max(seen, 0);
      const fresh: LogEntry[] = [];
      let after: string | undefined;
      let reached = false;
      let last = from;
      do {
        const page = await questions.log({ branch, prefix, limit: Math.min(PAGE, wanted), after, facts: true });
        last = Math.max(last, page.version);
        for (const one of page.entries) {
          if (seen !== -1 && one.version <= from) { reached = true; break; }
          fresh.push(one);
        }
        after = page.next;
      } while (after !== undefined && !reached && fresh.length < wanted);
      if (seen !== -1 && !reached && after !== undefined) skipped += Math.max(0, (fresh.at(-1)?.version ?? last) - from - 1);
      const made = fresh.flatMap(rowsOf);
      if (seen !== -1) counted.push({ time: Date.now(), rows: made.length });
      seen = Math.max(last, now);
      rows = [...made, ...rows].slice(0, ROWS_MAX);
    }
    const since = Date.now() - RATE_MS;
    while (counted.length && counted[0]!.time < since) counted.shift();
    const rate = counted.reduce((sum, one) => sum + one.rows, 0) / (RATE_MS / 1_000);
    const text = `${rows[0]?.key ?? ""} ${rows.length} ${skipped} ${rate}`;
    if (!isOver && text !== before) show({ rows, skipped, rate });
    before = text;
  };
  const loop = (): void => {
    timer = setTimeout(() => void turn().catch(() => undefined).then(() => isOver || loop()), TURN_MS);
  };
  void turn().catch(() => undefined).then(() => isOver || loop());
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

function rowsOf(commit: LogEntry): FlowRow[] {
  const items = (commit.items ?? []).filter((one) => one.kind !== "checkpoint");
  if (!items.length) return [{ key: `${commit.version}`, commit, id: undefined, kind: "other", text: noteText(commit.note) || titleOf(commit, undefined) }];
  return items.slice(0, 50).map((one) => ({
    key: `${commit.version} ${one.index}`, commit, id: one.id, kind: one.kind,
    text: one.kind === "delete" ? "deleted" : one.body === undefined ? "erased" : one.kind === "patch" ? patchText(one.body) : brief(one.body, 160),
  }));
}
