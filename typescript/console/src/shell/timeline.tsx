// The timeline (CONSOLE-7): bars of commits, a handle that travels, shift-drag for two moments, marks for tags and merges.
import { type PointerEvent as ReactPointerEvent, type ReactElement, useEffect, useMemo, useRef, useState } from "react";
import { HEAD, MAIN, writeSide } from "../address.ts";
import { Icon } from "../parts/icons.tsx";
import { useAsked, useThrottled, useView } from "../data/view.ts";
import { Axis } from "./axis.ts";
import type { Bucket } from "../data/questions.ts";
import { grouped, plural, shortTime, visible } from "../text.ts";

export type Span = "version" | "1h" | "24h" | "7d" | "time";
const SPANS: readonly { readonly span: Span; readonly label: string; readonly title: string; readonly ms?: number }[] = [
  { span: "1h", label: "1h", title: "The last hour", ms: 3_600_000 }, { span: "24h", label: "24h", title: "The last day", ms: 86_400_000 },
  { span: "7d", label: "7d", title: "The last week", ms: 604_800_000 }, { span: "time", label: "all", title: "All, by time" },
  { span: "version", label: "versions", title: "All, by version" },
];
/** At most this many bars; fewer where there are few commits, so that they tell something apart. */
const BUCKETS = 160;
const COMMITS_IN_BAR = 4;
/** Beyond this many versions the bars of main are those of all branches: one look for each bar, and not one for each commit. */
const WALKED_MAX = 100_000;
/** Bars that the server could not finish in time are asked for again that often, others every 2 s. */
const UNFINISHED_MS = 30_000;
/** A browser refuses more than 200 addresses in 10 s. */
const TRAVEL_MS = 60;

interface Drag {
  readonly from: number;
  readonly isRange: boolean;
  /** Where the handle is, and the version that the address has. */
  wanted: number;
  last: number;
  wentAt: number;
  timer: ReturnType<typeof setTimeout> | undefined;
  isPushed: boolean;
}

export function Timeline({ step }: { step: (direction: "prev" | "next") => void }): ReactElement {
  const view = useView();
  const { questions, moment, head, address, tags, go, branches } = view;
  const [span, setSpan] = useState<Span>("version");
  const drag = useRef<Drag | undefined>(undefined);
  const [dragged, setDragged] = useState<number | undefined>(undefined);
  const [range, setRange] = useState<readonly [number, number] | undefined>(undefined);
  const track = useRef<HTMLDivElement>(null);
  const prefix = address.screen === "entity" ? address.params["id"] ?? "" : address.params["prefix"] ?? "";
  const isOfBranch = branches.length > 1 && address.screen !== "commits" && (address.branch !== MAIN || prefix !== "" || head <= WALKED_MAX);
  const filter = { ...(prefix ? { prefix } : {}), ...(isOfBranch ? { branch: address.branch } : {}) };
  const [isUnfinished, setUnfinished] = useState(false);
  const slowHead = useThrottled(head, isUnfinished ? UNFINISHED_MS : 2_000);
  const ms = SPANS.find((one) => one.span === span)!.ms;
  const key = JSON.stringify([span, filter, slowHead]);
  const { data } = useAsked(head === 0 ? undefined : key, () => questions.histogram({
    by: span === "version" ? "version" : "time", buckets: Math.min(BUCKETS, Math.max(24, Math.ceil(slowHead / COMMITS_IN_BAR))), ...filter, ...(ms === undefined ? {} : { since: Math.max(1, Date.now() - ms) }),
  }), `${span} ${view.space.did} ${JSON.stringify(filter)}`);
  useEffect(() => setUnfinished(data?.exact === false), [data]);
  const buckets = data?.buckets ?? [];
  const axis = useMemo(() => new Axis(buckets, span !== "version", head), [buckets, span, head]);
  const shown = dragged ?? moment.shown;
  const place = axis.place(shown);

  const versionAt = (event: ReactPointerEvent | PointerEvent): number => {
    const box = track.current!.getBoundingClientRect();
    return Math.min(head, Math.max(1, axis.version((event.clientX - box.left) / box.width)));
  };
  const travel = (version: number, replace: boolean): void => go({ at: version >= head ? HEAD : { kind: "version", version }, replace });
  const down = (event: ReactPointerEvent<HTMLDivElement>): void => {
    if (event.button !== 0 || head === 0) return;
    event.preventDefault();
    event.currentTarget.setPointerCapture(event.pointerId);
    track.current?.querySelector<HTMLElement>(".handle")?.focus();
    const version = versionAt(event);
    drag.current = { from: version, wanted: moment.shown, last: moment.shown, wentAt: 0, timer: undefined, isRange: event.shiftKey, isPushed: false };
    if (event.shiftKey) setRange([version, version]);
    else dragTo(version);
  };
  const dragTo = (version: number): void => {
    const now = drag.current!;
    setDragged(version);
    now.wanted = version;
    now.timer ??= setTimeout(() => arrive(now), Math.max(0, now.wentAt + TRAVEL_MS - Date.now()));
  };
  /** One entry in the history of the browser for a whole drag: back leads to where it began. */
  const arrive = (now: Drag): void => {
    clearTimeout(now.timer);
    now.timer = undefined;
    if (now.wanted === now.last) return;
    travel(now.wanted, now.isPushed);
    [now.last, now.isPushed, now.wentAt] = [now.wanted, true, Date.now()];
  };
  const move = (event: ReactPointerEvent<HTMLDivElement>): void => {
    if (drag.current === undefined) return;
    const version = versionAt(event);
    if (drag.current.isRange) setRange([drag.current.from, version]);
    else dragTo(version);
  };
  const up = (): void => {
    const chosen = drag.current?.isRange ? range : undefined;
    if (drag.current?.isRange === false) arrive(drag.current);
    drag.current = undefined;
    setDragged(undefined);
    setRange(undefined);
    if (chosen === undefined) return;
    const [from, to] = [Math.min(...chosen), Math.max(...chosen)];
    if (from !== to) go({ screen: "diff", at: HEAD, params: { from: writeSide(address.branch, from), to: writeSide(address.branch, to) } });
  };
  const keys = (event: { key: string; preventDefault: () => void }): void => {
    const act: { [key: string]: () => void } = { ArrowLeft: () => step("prev"), ArrowRight: () => step("next"), Home: () => travel(1, false), End: () => go({ at: HEAD }) };
    const chosen = act[event.key];
    if (chosen === undefined) return;
    event.preventDefault();
    chosen();
  };
  const left = range === undefined ? 0 : axis.place(Math.min(...range));
  const right = range === undefined ? 0 : axis.place(Math.max(...range));
  return (
    <section className="timeline" aria-label="Timeline">
      <button className="button icon-only" title="Previous change ([)" aria-label="Previous change" onClick={() => step("prev")}><Icon name="prev" /></button>
      <div className="track" ref={track} onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerCancel={up}>
        <Bars buckets={buckets} axis={axis} until={place} isPlain={data === undefined} />
        {range !== undefined && <span className="range" style={{ left: `${left * 100}%`, width: `${(right - left) * 100}%` }} />}
        {tags.filter((tag) => tag.version <= head).slice(0, 60).map((tag) => (
          <button key={tag.name} className="flag" style={{ left: `${axis.place(tag.version) * 100}%` }} title={`Tag ${visible(tag.name)} at @${tag.version}`} aria-label={`Tag ${visible(tag.name)}`}
            onPointerDown={(event) => event.stopPropagation()} onClick={() => go({ branch: tag.branch, at: { kind: "tag", name: tag.name } })}>
            <bdi>{visible(tag.name)}</bdi>
          </button>
        ))}
        <span className={`handle ${moment.version === undefined ? "at-head" : ""}`} style={{ left: `${place * 100}%` }} role="slider" tabIndex={0} aria-label="Moment" aria-valuemin={1} aria-valuemax={Math.max(1, head)}
          aria-valuenow={Math.max(1, shown)} aria-valuetext={`Version ${shown} of ${head}`} onKeyDown={keys}>
          {dragged !== undefined && <span className="bubble">@{grouped(dragged)}{view.commit?.version === dragged ? ` · ${shortTime(view.commit.time)}` : ""}</span>}
        </span>
      </div>
      <button className="button icon-only" title="Next change (])" aria-label="Next change" onClick={() => step("next")}><Icon name="next" /></button>
      {questions.has("log.histogram") && (
        <div className="segments" role="group" aria-label="Span of the timeline">
          {SPANS.map((one) => <button key={one.span} aria-pressed={span === one.span} title={one.title} onClick={() => setSpan(one.span)}>{one.label}</button>)}
        </div>
      )}
      <span className="hint count" title="Shift-drag chooses two moments">{filterText(buckets, data?.exact, prefix)}</span>
      <button className="button" disabled={moment.version === undefined} title="Back to head (End)" onClick={() => go({ at: HEAD })}><Icon name="head" /> Head</button>
    </section>
  );
}

function filterText(buckets: readonly Bucket[], exact: boolean | undefined, prefix: string): string {
  if (!buckets.length) return "";
  const total = buckets.reduce((sum, one) => sum + one.commits, 0);
  return `${exact === false ? "at least " : ""}${plural(total, "commit")}${prefix ? " here" : ""}`;
}

function Bars({ buckets, axis, until, isPlain }: { buckets: readonly Bucket[]; axis: Axis; until: number; isPlain: boolean }): ReactElement {
  const path = useMemo(() => {
    const most = Math.max(1, ...buckets.map((one) => one.commits));
    return buckets.filter((one) => one.commits > 0).map((bucket) => {
      const { from, to } = axis.bar(bucket);
      const height = 4 + 26 * Math.sqrt(bucket.commits / most);
      const width = Math.max(1.2, (to - from) * 1_000 - 1);
      return `M${(from * 1_000).toFixed(1)} ${(34 - height).toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h-${width.toFixed(1)}z`;
    }).join("");
  }, [buckets, axis]);
  const edge = until * 1_000;
  return (
    <svg className="bars" viewBox="0 0 1000 34" preserveAspectRatio="none" aria-hidden="true">
      <defs>
        <clipPath id="bars-past"><rect x="0" y="0" width={edge + 1} height="34" /></clipPath>
        <clipPath id="bars-after"><rect x={edge + 1} y="0" width={Math.max(0, 1_000 - edge)} height="34" /></clipPath>
      </defs>
      {isPlain && <path d="M0 30h1000v4H0z" className="bar-after" />}
      {isPlain && <path d={`M0 30h${edge}v4H0z`} className="bar-past" />}
      <path d={path} clipPath="url(#bars-past)" className="bar-past" />
      <path d={path} clipPath="url(#bars-after)" className="bar-after" />
    </svg>
  );
}

/** Resets what a screen remembers when it shows something else. */
export function useReset(key: string, act: () => void): void {
  const before = useRef(key);
  useEffect(() => {
    if (before.current !== key) act();
    before.current = key;
  }, [key]); // eslint-disable-line
}
