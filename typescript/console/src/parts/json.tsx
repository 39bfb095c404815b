// A value as a tree of lines: types in colour, links that can be followed, and optionally who wrote each line last.
import type { BlameLine, Json } from "@stemmadb/client";
import { type ReactElement, type ReactNode, useMemo, useState } from "react";
import { useView } from "../data/view.ts";
import { cut, grouped, visible } from "../text.ts";
import { isLink, LINK_ID, type Line, lines, linkOf } from "../values.ts";
import { shortTime, shortDid } from "../text.ts";
import { Who, When, T } from "./text.tsx";
import { noteText } from "../values.ts";

const OPENING = { object: "{", array: "[" } as const;
const CLOSING = { object: "}", array: "]" } as const;
/** Containers with more children than this are closed at first, below the root. */
const OPEN_AT_FIRST = 40;
const DRAWN_AT_FIRST = 400;

interface Blaming {
  readonly lines: readonly BlameLine[];
  readonly newest: number;
  readonly onCommit: (version: number) => void;
}

export function JsonTree({ value, marked, onPick, blame }: { value: Json; marked?: string | undefined; onPick?: ((path: string) => void) | undefined; blame?: Blaming }): ReactElement {
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const [drawn, setDrawn] = useState(DRAWN_AT_FIRST);
  const rows = useMemo(() => {
    const big = new Set<string>();
    const all = lines(value, (path) => {
      const depth = path === "" ? 0 : path.split("/").length - 1;
      return (depth > 6) !== toggled.has(path);
    });
    for (const line of all) if (line.depth > 0 && line.size > OPEN_AT_FIRST) big.add(line.path);
    return big.size ? lines(value, (path) => (path.split("/").length - 1 > 6 || big.has(path)) !== toggled.has(path)) : all;
  }, [value, toggled]);
  const by = useMemo(() => new Map((blame?.lines ?? []).map((line) => [line.path, line])), [blame?.lines]);
  const toggle = (path: string): void => setToggled((before) => {
    const after = new Set(before);
    if (!after.delete(path)) after.add(path);
    return after;
  });
  return (
    <div className={`json ${blame === undefined ? "" : "blamed"}`} role="group" aria-label="Value">
      {rows.slice(0, drawn).map((line, at) => (
        <div key={at} className={`line ${marked !== undefined && line.kind !== "close" && line.path === marked ? "marked" : ""}`}>
          {blame !== undefined && <Gutter blame={blame} line={line.kind === "close" || line.kind === "more" ? undefined : found(by, line.kind === "link" ? line.path + LINK_ID : line.path)} before={at === 0 ? undefined : found(by, rows[at - 1]!.path)} />}
          <span className="number" aria-hidden="true">{at + 1}</span>
          <span className="code" style={{ paddingInlineStart: `${line.depth * 18 + 18}px` }}>
            {line.size > 0 && line.kind !== "close" && line.kind !== "more" && (
              <button className="fold" aria-expanded={line.isOpen} aria-label={line.isOpen ? "Close" : "Open"} onClick={() => toggle(line.path)}>{line.isOpen ? "▾" : "▸"}</button>
            )}
            <LineText line={line} onPick={onPick} />
          </span>
        </div>
      ))}
      {rows.length > drawn && <button className="button quiet" onClick={() => setDrawn(drawn * 4)}>{grouped(rows.length - drawn)} more lines</button>}
    </div>
  );
}

function LineText({ line, onPick }: { line: Line; onPick?: ((path: string) => void) | undefined }): ReactElement {
  const { kind, size } = line;
  const comma = line.isLast || line.isOpen ? "" : ",";
  if (kind === "more") return <span className="hint">… {grouped(size)} more</span>;
  if (kind === "close") return <span className="punct">{CLOSING[Array.isArray(line.value) ? "array" : "object"]}{line.isLast || line.depth === 0 ? "" : ","}</span>;
  const name = line.name === undefined ? undefined : <span className="key"><bdi>{JSON.stringify(visible(cut(line.name, 300)))}</bdi></span>;
  const label = name === undefined ? null : onPick === undefined ? <>{name}<span className="punct">: </span></> : <><button className="pick" title="Who wrote this?" onClick={() => onPick(line.path)}>{name}</button><span className="punct">: </span></>;
  if (kind === "object" || kind === "array") {
    const open = OPENING[kind];
    return <>{label}<span className="punct">{open}</span>{!line.isOpen && <><span className="hint">{size === 0 ? "" : ` ${grouped(size)} ${kind === "array" ? "items" : "keys"} `}</span><span className="punct">{CLOSING[kind]}{comma}</span></>}</>;
  }
  return <>{label}<Scalar value={line.value!} /><span className="punct">{comma}</span></>;
}

export function Scalar({ value }: { value: Json }): ReactElement {
  const view = useView();
  const [shown, setShown] = useState(1_000);
  const link = typeof value === "string" ? (isLink(value) ? value : undefined) : linkOf(value);
  if (link !== undefined) {
    return <a className="link" href={view.href({ screen: "entity", params: { id: link } })} title="Follow the link"><span className="arrow" aria-hidden="true">→ </span><T>{link}</T></a>;
  }
  if (typeof value !== "string") return <span className={value === null ? "null" : typeof value === "boolean" ? "bool" : "num"}>{String(value)}</span>;
  const text = value.length > shown ? value.slice(0, shown) : value;
  return (
    <span className="str">
      <bdi>{visible(JSON.stringify(text).slice(0, text.length === value.length ? undefined : -1))}</bdi>
      {value.length > shown && <button className="button tiny" onClick={() => setShown(Math.min(shown * 16, 262_144))}>{grouped(value.length - shown)} more characters</button>}
    </span>
  );
}

/** The blame of a path: its own, or that of what holds it. */
function found(by: ReadonlyMap<string, BlameLine>, path: string): BlameLine | undefined {
  for (let at = path; ; at = at.slice(0, at.lastIndexOf("/"))) {
    const line = by.get(at);
    if (line !== undefined || at === "") return line;
  }
}

function Gutter({ blame, line, before }: { blame: Blaming; line: BlameLine | undefined; before: BlameLine | undefined }): ReactElement {
  if (line === undefined) return <span className="gutter" />;
  if (line.version === undefined || line.compacted) return <span className="gutter"><span className="hint">compacted</span></span>;
  const version = line.version;
  const age = blame.newest === version ? "new" : "";
  if (before?.version === version) return <button className={`gutter again ${age}`} tabIndex={-1} aria-hidden="true" onClick={() => blame.onCommit(version)} />;
  const title = `${line.author === undefined ? "" : shortDid(line.author)} ${line.time === undefined ? "" : shortTime(line.time)} ${visible(noteText(line.note))}`;
  return (
    <button className={`gutter ${age}`} title={title} onClick={() => blame.onCommit(version)}>
      <span className="version">@{grouped(version)}</span>
      {line.author !== undefined && <Who did={line.author} />}
      <span className="gutter-note"><T max={80}>{noteText(line.note)}</T></span>
      {line.time !== undefined && <When time={line.time} />}
    </button>
  );
}

/** Text with a label beside it, for small facts. */
export function Field({ label, children }: { label: string; children: ReactNode }): ReactElement {
  return <div className="field"><span className="label">{label}</span><span className="field-value">{children}</span></div>;
}
