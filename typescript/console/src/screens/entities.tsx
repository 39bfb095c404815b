// Entities: the prefixes as a tree, the table of one prefix at the moment, and what stands behind a cell (CONSOLE-6).
import { memo, type ReactElement, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { HEAD } from "../address.ts";
import { type ListedEntity, PAGE_ROWS, type PrefixCount } from "../data/questions.ts";
import { useAsked, useStill, useView, type View } from "../data/view.ts";
import { Icon } from "../parts/icons.tsx";
import { Rows } from "../parts/rows.tsx";
import { Loading, State, T } from "../parts/text.tsx";
import { Failure } from "../shell/problem.tsx";
import { useReset } from "../shell/timeline.tsx";
import { grouped, inLine } from "../text.ts";
import { at, cell, columns, kindOf } from "../values.ts";
import { escape } from "../../../client/src/values/pointer.ts";
import { Inspector } from "./inspector.tsx";

const COLUMNS_MAX = 6;
const ROWS_MAX = 10_000;
const ASK_ROWS = 1_000;
/** Counts and the tree follow when the moment has come to rest: they cost more than the rows. */
const STILL_MS = 300;
/** Schemes of ids: where there are few, what is under them is shown at once. */
const OPEN_AT_FIRST = 3;

interface Listed {
  readonly version: number;
  readonly entities: readonly ListedEntity[];
  readonly erased: readonly string[];
  readonly hasMore: boolean;
}

export function EntitiesScreen(): ReactElement {
  const view = useView();
  const { questions, address, moment, head, go, href, space } = view;
  const prefix = address.params["prefix"] ?? "";
  const from = address.params["from"];
  const [wanted, setWanted] = useState(PAGE_ROWS);
  const subject = `${moment.branch} ${prefix} ${from ?? ""}`;
  useReset(subject, () => setWanted(PAGE_ROWS));
  const key = `${moment.version ?? `head ${head}`} ${wanted}`;
  const { data, error, isAsking } = useAsked<Listed>(key, async () => {
    const first = await questions.page(moment.branch, prefix, moment.version, { from, limit: Math.min(wanted, ASK_ROWS) });
    const entities = [...first.entities];
    const erased = [...first.erased];
    let { next } = first;
    while (next !== undefined && entities.length < wanted) {
      const page = await questions.page(moment.branch, prefix, moment.version, { after: next, limit: Math.min(wanted - entities.length, ASK_ROWS) });
      entities.push(...page.entities);
      erased.push(...page.erased);
      next = page.next;
    }
    return { version: first.version, entities, erased, hasMore: from === undefined ? next !== undefined : first.entities.length >= Math.min(wanted, ASK_ROWS) };
  }, subject);
  const still = useStill(moment.version ?? `head ${head}`, STILL_MS);
  const count = useAsked(String(still), () => questions.count(moment.branch, prefix, typeof still === "number" ? still : undefined), subject);
  const rows = data?.entities ?? [];
  const found = useMemo(() => columns(rows.filter((one) => one.id !== space.did).map((one) => one.body), COLUMNS_MAX), [rows, space]);
  const names = useMemo(() => found, [found.join("\u0000")]); // eslint-disable-line
  const hasOthers = useMemo(() => rows.some((one) => typeof one.body !== "object" || one.body === null || Array.isArray(one.body)), [rows]);
  const shown = useMemo(() => {
    const erased = (data?.erased ?? []).map((id) => ({ id, isErased: true as const }));
    const all: (ListedEntity | { id: string; isErased: true })[] = erased.length ? [...rows, ...erased].sort((one, other) => (one.id < other.id ? -1 : 1)) : [...rows];
    return all;
  }, [rows, data?.erased]);
  const selected = address.params["sel"];
  const widths = useMemo(() => names.map((name) => weight(rows.slice(0, 100).map((one) => cell(at(one.body, [name])).length), name)), [rows, names]);
  const longest = useMemo(() => Math.min(46, Math.max(14, ...rows.slice(0, 200).map((one) => one.id.length))), [rows]);
  const template = `minmax(150px, ${longest / 9}fr) 72px ${widths.map((one) => `minmax(74px, ${one}fr)`).join(" ")}${hasOthers ? " minmax(120px, 2fr)" : ""}`;
  const grid = useMemo(() => ({ gridTemplateColumns: template }), [template]);
  const open = useCallback((id: string): void => go({ screen: "entity", params: { id } }), [go]);
  const select = useCallback((id: string, path: string): void => go({ params: { sel: id, path }, replace: selected !== undefined }), [go, selected]);
  const selectedPath = address.params["path"];
  // The same element until something of it is new: what the bars above ask meanwhile does not draw it again.
  const table = useMemo(() => (
          <Rows items={shown} keyOf={(one) => one.id} height={34} label="Entities" role="grid" columns={names.length + 2}
            head={<div className="row head-row" role="row" style={grid}><span role="columnheader">id</span><span role="columnheader" className="right">version</span>{names.map((name) => <span key={name} role="columnheader"><T max={60}>{name}</T></span>)}{hasOthers && <span role="columnheader">value</span>}</div>}
            foot={data?.hasMore && (rows.length < ROWS_MAX && (from === undefined || rows.length < ASK_ROWS)
              ? <p className="foot"><button className="button" disabled={isAsking} onClick={() => setWanted(Math.min(ROWS_MAX, wanted + (wanted < 1_000 ? PAGE_ROWS * 2 : 1_000)))}>Load more</button></p>
              : data?.hasMore && <p className="foot hint">More than these are not listed at once. Type an id above to jump there.</p>)}
            row={(one) => ({
              className: "isErased" in one ? "erased" : one.version === moment.shown ? "touched" : "",
              isChosen: one.id === selected, onOpen: () => open(one.id),
              content: "isErased" in one
                ? <div className="cells" role="presentation" style={grid}><span role="cell" className="id"><a href={href({ screen: "entity", params: { id: one.id } })}><T>{one.id}</T></a></span><span role="cell" /><span role="cell" className="hint">erased on purpose</span></div>
                : <Cells one={one} href={href} shown={moment.shown} names={names} hasOthers={hasOthers} grid={grid} onSelect={select} selectedPath={one.id === selected ? selectedPath : undefined} />,
            })} />
  ), [shown, data, names, widths, longest, hasOthers, moment.shown, selected, selectedPath, isAsking, from, wanted, href, open, select]); // eslint-disable-line
  return (
    <div className={`split entities ${selected === undefined ? "" : "with-inspector"}`}>
      <PrefixTree prefix={prefix} rows={rows} />
      <section className="pane" aria-label="Entities" data-version={data?.version}>
        <div className="pane-head">
          <h1><T>{prefix === "" ? "All entities" : prefix}</T></h1>
          <span className="hint" data-testid="range">{rangeText(rows.length, data?.hasMore ?? false, count.data, from)}</span>
          {isAsking && data !== undefined && <span className="busy" aria-hidden="true" />}
          <span className="grow" />
          <Jump prefix={prefix} />
        </div>
        {error !== undefined && data === undefined ? <Failure error={error} /> : data === undefined ? <Loading rows={14} /> : shown.length === 0 ? <Nothing prefix={prefix} /> : (
          table
        )}
      </section>
      {selected !== undefined && <Inspector id={selected} path={address.params["path"] ?? ""} onClose={() => go({ params: { sel: undefined, path: undefined } })} />}
    </div>
  );
}

/** The share of the width that a column gets, by the length of what stands in it. */
function weight(lengths: readonly number[], name: string): number {
  const there = lengths.filter((length) => length > 0);
  const mean = there.reduce((sum, length) => sum + Math.min(48, length), 0) / Math.max(1, there.length);
  return Math.round(Math.max(0.8, Math.max(mean, name.length) / 9) * 10) / 10;
}

interface Shown {
  readonly one: ListedEntity;
  readonly names: readonly string[];
  readonly hasOthers: boolean;
  readonly onSelect: (id: string, path: string) => void;
  readonly selectedPath: string | undefined;
}

function Cells({ href, shown, grid, ...rest }: Shown & { href: View["href"]; shown: number; grid: { gridTemplateColumns: string } }): ReactElement {
  const { one } = rest;
  return (
    <div className="cells" role="presentation" style={grid}>
      <span role="cell" className="id"><a href={href({ screen: "entity", params: { id: one.id } })}><T>{one.id}</T></a></span>
      <span role="cell" className="right version">{one.version === shown && <span className="diamond" title="Written by this commit" aria-label="Written by this commit" role="img">◆ </span>}{grouped(one.version)}</span>
      <Values {...rest} />
    </div>
  );
}

/** Drawn again only for another value: in a step of the timeline most rows stay as they are. */
const Values = memo(function Values({ one, names, hasOthers, onSelect, selectedPath }: Shown): ReactElement {
  const isPlain = typeof one.body !== "object" || one.body === null || Array.isArray(one.body);
  const omitted = new Set(one.omitted ?? []);
  return (
    <>
      {names.map((name) => {
        const path = `/${escape(name)}`;
        const value = isPlain ? undefined : at(one.body, [name]);
        const isLeftOut = value === undefined && omitted.has(path);
        return (
          <span key={name} role="cell">
            {(value !== undefined || isLeftOut) && (
              <button className={`cell ${value === undefined ? "hint" : kindOf(value)} ${selectedPath === path ? "chosen" : ""}`} onClick={() => onSelect(one.id, path)} title="Who wrote this?">{isLeftOut ? "…" : <T max={120}>{cell(value)}</T>}</button>
            )}
          </span>
        );
      })}
      {hasOthers && <span role="cell">{isPlain && <button className={`cell ${kindOf(one.body)}`} onClick={() => onSelect(one.id, "")}><T max={160}>{cell(one.body)}</T></button>}</span>}
    </>
  );
}, (before, after) => before.one.id === after.one.id && before.one.version === after.one.version && before.one.hash === after.one.hash && before.names === after.names
  && before.hasOthers === after.hasOthers && before.onSelect === after.onSelect && before.selectedPath === after.selectedPath);

function rangeText(rows: number, hasMore: boolean, count: { entities: number; exact: boolean } | undefined, from: string | undefined): string {
  if (rows === 0) return "";
  const total = count === undefined ? (hasMore ? "many" : grouped(rows)) : `${count.exact ? "" : "at least "}${grouped(count.entities)}`;
  return from === undefined ? `1–${grouped(rows)} of ${total}` : `${grouped(rows)} of ${total}, after ${inLine(from)}`;
}

function Nothing({ prefix }: { prefix: string }): ReactElement {
  const { moment, go } = useView();
  const isPast = moment.version !== undefined;
  return (
    <State icon={<Icon name="empty" size={32} />} title={isPast ? "Nothing was here at this moment" : "Nothing is here yet"}>
      {prefix === "" ? <p>{isPast ? "The first commits came later." : <>Write something: <code>stemmadb set urn:todo:1 '{"{\"title\": \"first\"}"}'</code>, or fill a space to look at: <code>stemmadb demo</code>.</>}</p> : <p>No id begins with <T>{prefix}</T>.</p>}
      <p className="buttons">
        {prefix !== "" && <button className="button" onClick={() => go({ params: { prefix: undefined, from: undefined } })}>All entities</button>}
        {isPast && <button className="button" onClick={() => go({ at: HEAD })}>Back to head</button>}
      </p>
    </State>
  );
}

function Jump({ prefix }: { prefix: string }): ReactElement {
  const { go, address } = useView();
  const [text, setText] = useState(address.params["from"] ?? "");
  const submit = (event: { preventDefault: () => void }): void => {
    event.preventDefault();
    go({ params: { from: text.trim() || undefined } });
  };
  return <form className="jump" onSubmit={submit}><input aria-label="Jump to the ids after" placeholder={`Jump: ${inLine(prefix, 60) || "urn:"}…`} value={text} spellCheck={false} onInput={(event) => setText(event.currentTarget.value)} /></form>;
}

// ---------------------------------------------------------------- the tree

function PrefixTree({ prefix, rows }: { prefix: string; rows: readonly ListedEntity[] }): ReactElement {
  const { go, space } = useView();
  const [filter, setFilter] = useState("");
  return (
    <aside className="pane prefixes" aria-label="Prefixes">
      <div className="pane-head"><h2>Prefixes</h2></div>
      <input className="filter" aria-label="Filter prefixes" placeholder="Filter…" value={filter} spellCheck={false} onInput={(event) => setFilter(event.currentTarget.value)} onKeyDown={(event) => event.key === "Enter" && go({ params: { prefix: filter, from: undefined, sel: undefined, path: undefined } })} />
      <div className="tree">
        <TreeLink prefix="" label="everything" current={prefix} depth={0} count={undefined} />
        <Branch prefix="" current={prefix} depth={0} rows={rows} filter={filter} />
      </div>
      <p className="hint tree-note" title={space.did}>The list of rights is the entity of the space itself.</p>
    </aside>
  );
}

/** The children of one prefix: from the server, or, where it cannot tell, from the rows that are here. */
function Branch({ prefix, current, depth, rows, filter }: { prefix: string; current: string; depth: number; rows: readonly ListedEntity[]; filter: string }): ReactElement | null {
  const { questions, moment, head } = useView();
  const still = useStill(moment.version ?? `head ${head}`, STILL_MS);
  const { data } = useAsked(String(still), () => questions.prefixes(moment.branch, prefix, typeof still === "number" ? still : undefined), `${moment.branch} ${prefix}`);
  const own = useRef<readonly PrefixCount[]>([]);
  useEffect(() => {
    if (current === "" && depth === 0) own.current = guessed(rows);
  }, [rows, current, depth]);
  if (depth > 12) return null;
  const children = data ?? (depth === 0 && !questions.has("prefixes") ? (own.current.length ? own.current : guessed(rows)) : []);
  const shown = children.filter((one) => one.prefix !== prefix && isGroup(one.prefix) && (!filter || one.prefix.includes(filter) || filter.startsWith(one.prefix)));
  if (!shown.length) return null;
  return (
    <ul>
      {shown.map((one) => {
        const isOpen = current.startsWith(one.prefix) || (depth === 0 && shown.length <= OPEN_AT_FIRST);
        return (
          <li key={one.prefix}>
            <TreeLink prefix={one.prefix} label={one.prefix.slice(prefix.length)} current={current} depth={depth + 1} count={one} />
            {isOpen && questions.has("prefixes") && <Branch prefix={one.prefix} current={current} depth={depth + 1} rows={rows} filter={filter} />}
          </li>
        );
      })}
    </ul>
  );
}

function TreeLink({ prefix, label, current, depth, count }: { prefix: string; label: string; current: string; depth: number; count: PrefixCount | undefined }): ReactElement {
  const { href } = useView();
  const to = href({ params: { prefix, from: undefined, sel: undefined, path: undefined } });
  return (
    <a className="tree-link" href={to} style={{ paddingInlineStart: `${8 + depth * 14}px` }} aria-current={prefix === current ? "true" : undefined}>
      <span className="tree-name"><T max={80}>{label}</T></span>
      {count !== undefined && count.entities > 0 && <span className="badge">{grouped(count.entities)}{count.exact ? "" : "+"}</span>}
    </a>
  );
}

function isGroup(prefix: string): boolean {
  return /[:/#]$/.test(prefix);
}

/** The two first parts of the ids that are here. */
function guessed(rows: readonly ListedEntity[]): readonly PrefixCount[] {
  const counts = new Map<string, number>();
  for (const { id } of rows) {
    const found = /^[^:]+:[^:/#]*[:/#]/.exec(id)?.[0];
    if (found !== undefined) counts.set(found, (counts.get(found) ?? 0) + 1);
  }
  return [...counts].map(([prefix, entities]) => ({ prefix, entities, exact: true }));
}
