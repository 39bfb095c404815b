// The branches: a picture made of structural commits and heads; what lies between is one line (CONSOLE-6).
import type { BranchEntry } from "@stemmadb/client";
import { type ReactElement, useMemo, useState } from "react";
import { HEAD, MAIN, writeSide } from "../address.ts";
import { useAsked, useView } from "../data/view.ts";
import { Icon } from "../parts/icons.tsx";
import { Loading, T, Version, When, Who } from "../parts/text.tsx";
import { Failure } from "../shell/problem.tsx";
import { grouped, plural } from "../text.ts";
import { noteText } from "../values.ts";
import { titleOf } from "./commits.tsx";
import { LANES_MAX, picture, type Point } from "./picture.ts";

const STRUCTURE_MAX = 300;
/** Points and branches that are drawn at first, and more at each click: a space may have thousands. */
const DRAWN = 100;
const ROW = 46;
const LANE = 18;

export function BranchesScreen(): ReactElement {
  const view = useView();
  const { questions, branches, head, tags, go, href, moment } = view;
  const { data, error } = useAsked(String(head), async () => {
    const structure = await questions.structure(STRUCTURE_MAX);
    const heads = await Promise.all(branches.slice(0, 20).map(async (one) => (one.head > 0 ? await questions.commit(one.head).catch(() => undefined) : undefined)));
    return { structure, heads: new Map(heads.filter((one) => one !== undefined).map((one) => [one.version, one])) };
  });
  const made = useMemo(() => picture(branches, data?.structure ?? []), [branches, data]);
  const [drawn, setDrawn] = useState(DRAWN);
  if (error !== undefined && data === undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading isWhole rows={10} />;
  const { lanes } = made;
  const points = made.points.slice(0, drawn);
  const width = (Math.min(LANES_MAX, lanes.size - 1) + 1) * LANE + 24;
  return (
    <div className="split branches">
      <section className="pane" aria-label="Structure">
        <div className="pane-head"><h1>Branches</h1><span className="hint">{plural(branches.length, "branch", "branches")} · {plural(tags.length, "tag")}</span></div>
        <div className="picture-box" tabIndex={0} role="group" aria-label="Structure of the branches">
          <div className="picture" style={{ height: `${points.length * ROW + 30}px` }}>
            <Lines points={points} lanes={lanes} width={width} branches={branches} />
            {points.map((one, at) => {
              const commit = one.commit ?? data.heads.get(one.version);
              const below = points.slice(at + 1).find((other) => other.lane === one.lane);
              const between = below === undefined || questionsBetween(one, below) <= 0 ? 0 : questionsBetween(one, below);
              return (
                <div key={`${one.version} ${one.branch} ${one.what}`} className={`point ${one.version > moment.shown ? "after" : ""}`} style={{ top: `${at * ROW}px`, paddingInlineStart: `${width}px` }}>
                  <Version version={one.version} />
                  <span className={`branch-name lane-${one.lane % 6}`}><T max={60}>{one.branch}</T></span>
                  {one.what === "head" && <span className="badge">head</span>}
                  <span className="note"><T max={90}>{commit === undefined ? (one.what === "fork" ? "begins" : "") : noteText(commit.note) || titleOf(commit, undefined)}</T></span>
                  {commit !== undefined && <><Who did={commit.author} /> <When time={commit.time} /></>}
                  {between > 1 && <span className="hint">· {plural(between, "version")} to the next</span>}
                  <button className="button tiny" onClick={() => go({ branch: one.branch, at: one.version >= head ? HEAD : { kind: "version", version: one.version }, screen: "entities", params: {} })}>Go</button>
                </div>
              );
            })}
          </div>
          {made.points.length > drawn && <p className="foot"><button className="button" onClick={() => setDrawn(drawn + DRAWN * 2)}>{grouped(made.points.length - drawn)} more below</button></p>}
        </div>
      </section>
      <aside className="pane branch-list" aria-label="List of branches">
        <div className="pane-head"><h2>Heads</h2></div>
        <Heads lanes={lanes} />
        {tags.length > 0 && <><h3>Tags</h3><ul className="cards">{tags.slice(0, 100).map((one) => <li key={one.name} className="tag-row"><Icon name="tag" /> <a href={href({ branch: one.branch, at: { kind: "tag", name: one.name }, screen: "entities", params: {} })}><T max={80}>{one.name}</T></a> <Version version={one.version} /> <span className="hint"><T max={40}>{one.branch}</T></span></li>)}</ul></>}
      </aside>
    </div>
  );
}

/** The branches, those first that are drawn in a lane of their own; found by a part of the name. */
function Heads({ lanes }: { lanes: ReadonlyMap<string, number> }): ReactElement {
  const { branches, href } = useView();
  const [part, setPart] = useState("");
  const [drawn, setDrawn] = useState(DRAWN);
  const found = useMemo(() => branches.filter((one) => one.name.includes(part)).sort((one, other) => lanes.get(one.name)! - lanes.get(other.name)!), [branches, lanes, part]);
  return (
    <>
      {branches.length > 10 && <input className="filter" aria-label="Find a branch" placeholder="Find a branch…" value={part} spellCheck={false} onInput={(event) => setPart(event.currentTarget.value)} />}
      <ul className="cards">
        {found.slice(0, drawn).map((one) => (
          <li key={one.name} className={`card-row ${one.deleted !== undefined ? "deleted" : ""}`}>
            <p><span className={`branch-name lane-${Math.min(LANES_MAX, lanes.get(one.name) ?? 0) % 6}`}><T max={80}>{one.name}</T></span> {one.deleted !== undefined && <span className="badge">deleted at @{grouped(one.deleted)}</span>}</p>
            <p className="hint">head <Version version={one.head} />{one.parent !== undefined && <> · from <T max={40}>{one.parent}</T> at <Version version={one.fork} /></>}</p>
            <p className="buttons">
              <a className="button" href={href({ screen: "entities", branch: one.name, at: HEAD, params: {} })}>Look</a>
              {one.name !== MAIN && <><a className="button" href={href({ screen: "diff", params: { from: writeSide(one.parent ?? MAIN, "head"), to: writeSide(one.name, "head") } })}>Diff</a>
                <a className="button primary" href={href({ screen: "merge", branch: MAIN, at: HEAD, params: { source: one.name, target: one.parent ?? MAIN } })}><Icon name="merge" /> Merge</a></>}
            </p>
          </li>
        ))}
        {found.length > drawn && <li className="card-row"><button className="button" onClick={() => setDrawn(drawn + DRAWN * 2)}>{grouped(found.length - drawn)} more</button></li>}
        {branches.every((one) => one.name === MAIN) && <li className="hint card-row">Only main. Try something without risk: <code>stemmadb branch create draft</code></li>}
      </ul>
    </>
  );
}

function questionsBetween(one: Point, below: Point): number {
  return one.version - below.version - 1;
}

/** Where the line of a merge ends: at the next point of the branch that it brought in. */
function reached(points: readonly Point[], at: number): number {
  const next = points.findIndex((one, place) => place > at && one.lane === points[at]!.other);
  return next === -1 ? at + 1 : next;
}

function Lines({ points, lanes, width, branches }: { points: readonly Point[]; lanes: ReadonlyMap<string, number>; width: number; branches: readonly BranchEntry[] }): ReactElement {
  const x = (lane: number): number => 16 + lane * LANE;
  const y = (at: number): number => at * ROW + ROW / 2;
  const bottom = points.length * ROW + 20;
  const rails = [...lanes].filter(([, lane]) => lane <= LANES_MAX).map(([name, lane]) => {
    const mine = points.map((one, at) => ({ one, at })).filter(({ one }) => one.lane === lane);
    const top = mine[0]?.at;
    const fork = name === MAIN ? undefined : mine.findLast(({ one }) => one.what === "fork")?.at;
    const isDeleted = branches.find((one) => one.name === name)?.deleted !== undefined;
    return top === undefined ? null : <line key={name} x1={x(lane)} x2={x(lane)} y1={y(top)} y2={fork === undefined ? bottom : y(fork)} className={`rail lane-${lane % 6} ${isDeleted ? "ended" : ""}`} />;
  });
  return (
    <svg className="lines" width={width} height={bottom} aria-hidden="true">
      {rails}
      {points.map((one, at) => one.other === undefined || one.other === one.lane ? null : one.what === "fork"
        ? <path key={at} d={`M${x(one.lane)} ${y(at)} C${x(one.lane)} ${y(at) + 20} ${x(one.other)} ${y(at) + 4} ${x(one.other)} ${y(at) + 24}`} className={`rail lane-${one.lane % 6}`} />
        : <path key={at} d={`M${x(one.lane)} ${y(at)} C${x(one.lane) + 14} ${y(at) + 4} ${x(one.other)} ${y(at) + 6} ${x(one.other)} ${y(at) + 30}V${y(reached(points, at))}`} className={`rail dashed lane-${one.other % 6}`} />)}
      {points.map((one, at) => one.what === "tag"
        ? <path key={at} d={`M${x(one.lane) - 5} ${y(at)}l5-5 5 5-5 5z`} className={`point-dot lane-${one.lane % 6}`} />
        : <circle key={at} cx={x(one.lane)} cy={y(at)} r={one.what === "merge" ? 6 : 4.5} className={`point-dot ${one.what} lane-${one.lane % 6}`} />)}
    </svg>
  );
}
