// A merge: a dry run first, the conflicts by path, a choice for each of them, a note, then the merge itself.
import type { Contested, Json, MergeReport, StemmaError } from "@stemmadb/client";
import { type ReactElement, useMemo, useState } from "react";
import { HEAD, MAIN } from "../address.ts";
import { asError, type Strategy } from "../data/questions.ts";
import { mayWrite, useAsked, useView } from "../data/view.ts";
import { Icon } from "../parts/icons.tsx";
import { Loading, State, T, Version } from "../parts/text.tsx";
import { Failure } from "../shell/problem.tsx";
import { grouped, plural, visible } from "../text.ts";
import { at, brief, tokensOf } from "../values.ts";
import { type Choice, keyOf, resolved, type Sides } from "./resolutions.ts";
import { patchText } from "./entity.tsx";

const STRATEGIES: readonly (readonly [Strategy, string])[] = [["fields", "field by field, then the last writer"], ["lww", "the last writer of an entity wins"], ["source", "the source wins"], ["target", "the target wins"]];

export function MergeScreen(): ReactElement {
  const view = useView();
  const { address, questions, head, go, branches, announce, href } = view;
  const source = address.params["source"] ?? branches.find((one) => one.name !== MAIN)?.name ?? MAIN;
  const target = address.params["target"] ?? MAIN;
  const strategy = (STRATEGIES.find(([one]) => one === address.params["strategy"])?.[0] ?? "fields");
  const [choices, setChoices] = useState<ReadonlyMap<string, Choice>>(new Map());
  const [note, setNote] = useState("");
  const [failure, setFailure] = useState<StemmaError | undefined>();
  const [done, setDone] = useState<MergeReport | undefined>();
  const options = useMemo(() => branches.map(({ name }) => <option key={name} value={name}>{visible(name)}</option>), [branches]);
  const { data, error } = useAsked(done !== undefined ? undefined : String(head), async () => {
    const report = await questions.merge(source, target, { strategy, dry_run: true });
    const ids = [...new Set((report.conflicts ?? []).map((one) => one.id))];
    const [ours, theirs] = await Promise.all([questions.entities(source, ids, report.source_version), questions.entities(target, ids, report.target_version)]);
    const bases = new Map<string, Json | undefined>();
    for (const one of report.conflicts ?? []) {
      if (bases.has(one.id)) continue;
      bases.set(one.id, one.base === undefined ? undefined : (await questions.entities(source, [one.id], one.base)).found.get(one.id)?.body);
    }
    return { report, sides: new Map(ids.map((id) => [id, { base: bases.get(id), source: ours.found.get(id)?.body, target: theirs.found.get(id)?.body }])) };
  }, `${source} ${target} ${strategy}`);
  if (branches.length < 2) return <State isWhole icon={<Icon name="branches" size={32} />} title="There is only one branch">A merge needs two.</State>;
  if (done !== undefined) return (
    <State isWhole icon={<Icon name="check" size={32} />} title={done.version === undefined ? "There was nothing to merge" : `Merged at @${grouped(done.version)}`}>
      <p className="buttons"><a className="button primary" href={href({ screen: "commits", branch: target, at: HEAD, params: done.version === undefined ? {} : { c: String(done.version) } })}>The commit</a><a className="button" href={href({ screen: "branches", at: HEAD, params: {} })}>Branches</a></p>
    </State>
  );
  const conflicts = data?.report.conflicts ?? [];
  const isHidden = (data?.report.conflicts_count ?? conflicts.length) > conflicts.length;
  const left = conflicts.filter((one) => !choices.has(keyOf(one))).length;
  const merge = async (event: { preventDefault: () => void }): Promise<void> => {
    event.preventDefault();
    setFailure(undefined);
    const ids = [...new Set(conflicts.map((one) => one.id))];
    const resolutions = ids.map((id) => resolved(id, data!.sides.get(id)!, data!.report.writes?.find((one) => one.id === id), conflicts, choices));
    try {
      const { source_version, target_version } = data!.report;
      const report = await questions.merge(source, target, { strategy, source_version, expect_target: target_version, ...(resolutions.length ? { resolutions } : {}), ...(note ? { note: { message: note } } : {}) });
      setDone(report);
      announce("Merged.");
    } catch (failed) {
      setFailure(asError(failed));
    }
  };
  return (
    <section className="pane merge" aria-label="Merge">
      <div className="pane-head">
        <h1>Merge</h1>
        <select aria-label="From branch" value={source} onChange={(event) => (setChoices(new Map()), go({ params: { source: event.currentTarget.value }, replace: true }))}>{options}</select>
        <span aria-hidden="true">→</span>
        <select aria-label="Into branch" value={target} onChange={(event) => (setChoices(new Map()), go({ params: { target: event.currentTarget.value }, replace: true }))}>{options}</select>
        <label className="hint">strategy <select value={strategy} onChange={(event) => (setChoices(new Map()), go({ params: { strategy: event.currentTarget.value }, replace: true }))}>{STRATEGIES.map(([name, says]) => <option key={name} value={name}>{name}: {says}</option>)}</select></label>
      </div>
      {source === target ? <State icon={<Icon name="branches" size={32} />} title="A branch cannot be merged into itself">Choose two.</State> : error !== undefined && data === undefined ? <Failure error={error} /> : data === undefined ? <Loading rows={8} /> : (
        <div className="panel merge-body">
          <p className="merge-sum" data-testid="dry-run">Dry run: {plural(data.report.writes_count ?? data.report.writes?.length ?? 0, "write")}, <strong>{plural(data.report.conflicts_count ?? conflicts.length, "conflict")}</strong> <span className="hint"><T>{source}</T> @{grouped(data.report.source_version)} → <T>{target}</T> @{grouped(data.report.target_version)}</span></p>
          {conflicts.map((one) => <Conflict key={keyOf(one)} one={one} sides={data.sides.get(one.id)!} source={source} target={target} choice={choices.get(keyOf(one))} onChoice={(choice) => setChoices(new Map(choices).set(keyOf(one), choice))} />)}
          {isHidden && <p className="why">Not all conflicts are listed: use <code>stemmadb merge</code> for this many.</p>}
          <h2>What would be written on <T>{target}</T></h2>
          <ul className="changes wide">{(data.report.writes ?? []).slice(0, 200).map((one) => <li key={one.id}><span className={`sign ${one.kind}`}>{{ set: "+", patch: "~", delete: "−" }[one.kind]}</span><span><T>{one.id}</T><span className="fact-body"><T max={240}>{one.body === undefined ? "deleted" : one.kind === "patch" ? patchText(one.body) : brief(one.body, 240)}</T></span></span></li>)}</ul>
          {(data.report.writes ?? []).length === 0 && <p className="hint">Nothing: <T>{target}</T> has all of it already.</p>}
          <form className="merge-form" onSubmit={(event) => void merge(event)}>
            <span className="hint" role="status">{conflicts.length > 0 && (left === 0 ? "All conflicts are settled" : `${left} of ${conflicts.length} conflicts left`)}</span>
            <label>Note <input value={note} onInput={(event) => setNote(event.currentTarget.value)} placeholder="why this merge" /></label>
            <button className="button primary" disabled={left > 0 || isHidden || !mayWrite(view)} title={mayWrite(view) ? undefined : "This page may read only. Start it with stemmadb console --web --write."}><Icon name="merge" /> Merge</button>
            {!mayWrite(view) && <span className="hint">Preview only: this page may read. For more: <code>stemmadb console --web --write</code></span>}
          </form>
          {failure !== undefined && <p className="why" role="alert"><T max={600}>{failure.message}</T></p>}
        </div>
      )}
    </section>
  );
}

function Conflict({ one, sides, source, target, choice, onChoice }: { one: Contested; sides: Sides; source: string; target: string; choice: Choice | undefined; onChoice: (choice: Choice) => void }): ReactElement {
  const tokens = tokensOf(one.path ?? "");
  const options: readonly (readonly [Choice, string, number | undefined])[] = [["base", "before both", one.base], ["source", source, one.source], ["target", target, one.target]];
  return (
    <fieldset className={`conflict ${choice === undefined ? "open" : "settled"}`}>
      <legend><T>{one.id}</T> <code><T>{one.path ?? "(whole)"}</T></code></legend>
      <div className="options">
        {options.map(([name, label, version]) => {
          const value = at(sides[name], tokens);
          return (
            <label key={name} className={`option ${choice === name ? "chosen" : ""}`}>
              <span className="option-head"><input type="radio" name={keyOf(one)} checked={choice === name} onChange={() => onChoice(name)} /> <T max={60}>{label}</T> {version !== undefined && <Version version={version} />}</span>
              <code className="option-value"><T max={400}>{value === undefined ? "(nothing)" : brief(value, 400)}</T></code>
            </label>
          );
        })}
      </div>
    </fieldset>
  );
}
