// One entity: its value, its history, who wrote each line, and what changed between two of its versions.
import type { HistoryEntry, Json } from "@stemmadb/client";
import { type ReactElement, useState } from "react";
import { useAsked, useView, mayWrite } from "../data/view.ts";
import { Difference } from "../parts/difference.tsx";
import { Icon } from "../parts/icons.tsx";
import { JsonTree } from "../parts/json.tsx";
import { Rows } from "../parts/rows.tsx";
import { Loading, State, T, Version, When, Who } from "../parts/text.tsx";
import { Failure } from "../shell/problem.tsx";
import { grouped, inLine } from "../text.ts";
import { brief, noteText } from "../values.ts";
import { Editor } from "./editor.tsx";

const TABS = [["value", "Value"], ["history", "History"], ["blame", "Blame"], ["diff", "Diff"]] as const;

export function EntityScreen(): ReactElement {
  const view = useView();
  const { questions, address, moment, head, go, href } = view;
  const id = address.params["id"] ?? "";
  const tab = [...TABS.map(([name]) => name), "edit"].find((name) => name === address.params["tab"]) ?? "value";
  const key = `${moment.version ?? `head ${head}`}`;
  const { data, error } = useAsked(id ? key : undefined, () => questions.entities(moment.branch, [id], moment.version), `${moment.branch} ${id}`);
  const entity = data?.found.get(id);
  const isHead = moment.version === undefined;
  const folder = /^.*[:/#](?=.)/.exec(id)?.[0] ?? "";
  if (!id) return <State isWhole icon={<Icon name="empty" size={32} />} title="Which entity?">Type its id above, after <kbd>/</kbd>.</State>;
  return (
    <section className="pane entity" aria-label="Entity">
      <div className="pane-head">
        {folder && <a className="crumb" href={href({ screen: "entities", params: { prefix: folder } })} title="All under this prefix"><T max={120}>{folder}</T></a>}
        <h1 className="entity-name"><T max={300}>{id.slice(folder.length) || id}</T></h1>
        {entity !== undefined && <span className="hint">last written at <a href={href({ at: { kind: "version", version: entity.version } })}><Version version={entity.version} /></a></span>}
        <span className="grow" />
        <div className="tabs" role="tablist" aria-label="Views of the entity">
          {TABS.map(([name, label]) => <button key={name} role="tab" id={`tab-${name}`} aria-selected={tab === name} aria-controls="entity-panel" tabIndex={tab === name ? 0 : -1}
            onClick={() => go({ params: { tab: name === "value" ? undefined : name } })}
            onKeyDown={(event) => {
              const at = TABS.findIndex(([one]) => one === name);
              const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
              if (by === 0) return;
              const next = TABS[(at + by + TABS.length) % TABS.length]![0];
              go({ params: { tab: next === "value" ? undefined : next } });
              document.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
            }}>{label}</button>)}
        </div>
        {isHead && mayWrite(view, id) && <button className="button" aria-pressed={tab === "edit"} onClick={() => go({ params: { tab: tab === "edit" ? undefined : "edit" } })}><Icon name="edit" /> Edit</button>}
      </div>
      <div id="entity-panel" className="panel" role="tabpanel" aria-label={tab}>
        {error !== undefined && data === undefined ? <Failure error={error} /> : data === undefined ? <Loading /> :
          tab === "history" ? <History id={id} /> :
          tab === "edit" && isHead ? <Editor id={id} entity={entity} /> :
          data.erased.includes(id) ? <State icon={<Icon name="erased" size={32} />} title="Erased on purpose"><p>The value that stood here at @{grouped(moment.shown)} was destroyed. Its place in the history stays.</p><p className="buttons"><button className="button" onClick={() => go({ params: { tab: "history" } })}>Its history</button></p></State> :
          entity === undefined && tab !== "diff" ? <Missing id={id} /> :
          tab === "blame" ? <Blame id={id} value={entity!.body} newest={entity!.version} /> :
          tab === "diff" ? <EntityDiff id={id} value={entity?.body} /> :
          <JsonTree value={entity!.body} marked={address.params["path"]} onPick={(path) => go({ screen: "entities", params: { prefix: folder, sel: id, path } })} />}
      </div>
    </section>
  );
}

function Missing({ id }: { id: string }): ReactElement {
  const { questions, moment, go } = useView();
  const { data } = useAsked(`${moment.shown}`, () => questions.history(moment.branch, id, { limit: 1 }).catch(() => ({ entries: [] as HistoryEntry[], next: undefined })), `${moment.branch} ${id}`);
  const last = data?.entries[0];
  return (
    <State icon={<Icon name="empty" size={32} />} title={moment.version === undefined ? "There is no such entity" : "It was not there at this moment"}>
      {last === undefined ? <p>Nothing was ever written under this id, or you may not read it.</p> : (
        <>
          <p>{last.kind === "delete" ? <>It was deleted at <Version version={last.version} /> by <Who did={last.author} />.</> : <>It was last written at <Version version={last.version} />.</>}</p>
          <p className="buttons">
            <button className="button primary" onClick={() => go({ at: { kind: "version", version: Math.max(1, last.kind === "delete" ? last.version - 1 : last.version) } })}>{last.kind === "delete" ? "Go to the moment before" : "Go there"}</button>
            <button className="button" onClick={() => go({ params: { tab: "history" } })}>Its history</button>
          </p>
        </>
      )}
    </State>
  );
}

function Blame({ id, value, newest }: { id: string; value: Json; newest: number }): ReactElement {
  const { questions, moment, head, go } = useView();
  const { data, error } = useAsked(`${moment.version ?? `head ${head}`}`, () => questions.blame(moment.branch, id, moment.version), `${moment.branch} ${id}`);
  if (error !== undefined && data === undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading />;
  return (
    <>
      <p className="hint above">Beside each line stands the commit that wrote it last. Click it to go there.</p>
      <JsonTree value={value} blame={{ lines: data, newest, onCommit: (version) => go({ screen: "commits", params: { c: String(version) } }) }} />
    </>
  );
}

const SIGNS: { readonly [kind: string]: readonly [string, string] } = { set: ["+", "whole value"], patch: ["~", "patch"], delete: ["−", "deleted"], checkpoint: ["◇", "checkpoint"] };

function History({ id }: { id: string }): ReactElement {
  const { questions, moment, head, go, address } = useView();
  const [wanted, setWanted] = useState(100);
  const { data, error } = useAsked(`${head} ${wanted}`, async () => {
    const entries: HistoryEntry[] = [];
    let after: string | undefined;
    do {
      const page = await questions.history(moment.branch, id, { after, limit: 100 });
      entries.push(...page.entries);
      after = page.next;
    } while (after !== undefined && entries.length < wanted);
    return { entries: entries.filter((one) => one.kind !== "checkpoint"), hasMore: after !== undefined };
  }, `${address.branch} ${id}`);
  if (error !== undefined && data === undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading />;
  const current = data.entries.find((one) => one.version <= moment.shown);
  return (
    <Rows items={data.entries} keyOf={(one) => `${one.version} ${one.index}`} height={56} label="History"
      foot={data.hasMore && <p className="foot"><button className="button" onClick={() => setWanted(wanted + 400)}>Load more</button></p>}
      row={(one) => {
        const [sign, name] = SIGNS[one.kind] ?? ["", one.kind];
        const show = (): void => go({ at: { kind: "version", version: one.version }, params: { tab: "diff", from: String(Math.max(0, one.version - 1)) } });
        return {
          className: `fact ${one.version > moment.shown ? "after" : ""} ${one === current ? "touched" : ""}`, onOpen: show,
          content: (
            <button className="fact-line" onClick={show} tabIndex={-1}>
              <span className={`sign ${one.kind}`} title={name}>{sign}</span>
              <span className="fact-main">
                <span className="fact-top"><Version version={one.version} /> <Who did={one.author} /> <span className="note"><T max={120}>{noteText(one.note)}</T></span>{one.made_by !== undefined && one.made_by !== "commit" && <span className="badge kind">{one.made_by}</span>}</span>
                <span className="fact-body"><T max={200}>{one.kind === "delete" ? "deleted" : one.body === undefined ? "erased or compacted: its digest stays" : one.kind === "patch" ? patchText(one.body) : brief(one.body, 300)}</T></span>
              </span>
              <When time={one.time} />
            </button>
          ),
        };
      }} />
  );
}

/** The steps of a patch in one line: `/votes 2 · /done removed`. */
export function patchText(body: Json): string {
  if (!Array.isArray(body)) return brief(body, 300);
  return (body as readonly { op?: string; path?: string; value?: Json; by?: Json; from?: string }[]).slice(0, 12).map((step) => {
    if (step.op === "remove") return `${step.path} removed`;
    if (step.op === "increment") return `${step.path} +${brief(step.by ?? step.value ?? null, 40)}`.replace("+-", "−");
    if (step.op === "move" || step.op === "copy") return `${step.op} ${step.from} → ${step.path}`;
    if (step.op === "splice") return `${step.path} edited`;
    return `${step.path || "value"} → ${brief(step.value ?? null, 80)}`;
  }).join(" · ");
}

function EntityDiff({ id, value }: { id: string; value: Json | undefined }): ReactElement {
  const { questions, moment, head, address, go } = useView();
  const given = address.params["from"];
  const versions = useAsked(`${head}`, () => questions.history(moment.branch, id, { limit: 200 }), `${address.branch} ${id}`);
  const earlier = (versions.data?.entries ?? []).filter((one) => one.kind !== "checkpoint" && one.version < moment.shown);
  const newest = (versions.data?.entries ?? []).find((one) => one.kind !== "checkpoint" && one.version <= moment.shown);
  const from = given !== undefined && /^\d+$/.test(given) ? Number(given) : newest === undefined ? undefined : newest.version - 1;
  const { data, error } = useAsked(from === undefined ? undefined : String(from), () => (from! < 1 ? Promise.resolve(undefined) : questions.entities(moment.branch, [id], from!)), `${moment.branch} ${id}`);
  if (error !== undefined) return <Failure error={error} />;
  if (from === undefined || (data === undefined && from > 0)) return <Loading />;
  return (
    <>
      <p className="above">
        <label className="hint">Compare with <select value={String(from)} onChange={(event) => go({ params: { from: event.currentTarget.value }, replace: true })}>
          {!earlier.some((one) => one.version === from) && <option value={from}>@{from}</option>}
          {earlier.map((one) => <option key={one.version} value={one.version}>@{one.version} {inLine(noteText(one.note), 40)}</option>)}
        </select></label>
      </p>
      <Difference left={data?.found.get(id)?.body} right={value} names={[`@${from}`, `@${moment.shown}`]} />
    </>
  );
}
