// What changed between two moments: the entities that differ, and each of them side by side.
import type { EntityChange, Json } from "@stemmadb/client";
import { type ReactElement, useMemo, useState } from "react";
import { MAIN, parseSide, writeSide } from "../address.ts";
import { useAsked, useView } from "../data/view.ts";
import { Difference } from "../parts/difference.tsx";
import { Icon } from "../parts/icons.tsx";
import { Rows } from "../parts/rows.tsx";
import { Loading, State, T } from "../parts/text.tsx";
import { Failure } from "../shell/problem.tsx";
import { grouped, plural, visible } from "../text.ts";

type Side = { branch: string; version: number };

export function DiffScreen(): ReactElement {
  const view = useView();
  const { address, questions, head, tags, moment, go } = view;
  const { from, to } = address.params;
  const prefix = address.params["prefix"];
  const sides = useAsked(`${from ?? ""} ${to ?? ""} ${head}`, async () => {
    const side = async (text: string | undefined, fallback: Side): Promise<Side> => {
      const given = parseSide(text);
      if (given === undefined) return fallback;
      const { branch, at } = given;
      if (at.kind === "version") return { branch, version: at.version };
      if (at.kind === "time") return { branch, version: await questions.versionAt(branch, at.time) };
      const tag = at.kind === "tag" ? tags.find((one) => one.name === at.name) : undefined;
      return tag === undefined ? { branch, version: head } : { branch: tag.branch, version: tag.version };
    };
    const right = await side(to, { branch: moment.branch, version: moment.shown });
    return { left: await side(from, { branch: right.branch, version: Math.max(0, right.version - 10) }), right };
  });
  const { left, right } = sides.data ?? {};
  const key = left === undefined || right === undefined ? undefined : `${writeSide(left.branch, left.version)} ${writeSide(right.branch, right.version)}`;
  const [wanted, setWanted] = useState(500);
  const { data, error, isAsking } = useAsked(key === undefined ? undefined : `${key} ${wanted}`, async () => {
    const changes: EntityChange[] = [];
    let after: string | undefined;
    do {
      const page = await questions.diff(left!, right!, { prefix, after });
      changes.push(...page.changes);
      after = page.next;
    } while (after !== undefined && changes.length < wanted);
    return { changes, hasMore: after !== undefined };
  }, prefix ?? "");
  const changes = data?.changes ?? [];
  const chosen = changes.find((one) => one.id === address.params["id"]) ?? changes[0];
  const counts = useMemo(() => {
    const count = { added: 0, removed: 0, changed: 0 };
    for (const one of changes) count[kindOf(one)] += 1;
    return count;
  }, [changes]);
  if (sides.error !== undefined) return <Failure error={sides.error} />;
  return (
    <div className="split diff">
      <section className="pane side-list" aria-label="What differs">
        <div className="pane-head"><h1>Diff</h1>{isAsking && <span className="busy" aria-hidden="true" />}</div>
        {left !== undefined && right !== undefined && <Sides left={left} right={right} />}
        {data !== undefined && <p className="diff-counts" data-testid="counts"><span className="change-changed">~ {grouped(counts.changed)} changed</span> <span className="change-added">+ {grouped(counts.added)} added</span> <span className="change-removed">− {grouped(counts.removed)} removed</span>{data.hasMore && <span className="hint"> so far</span>}</p>}
        {error !== undefined && data === undefined ? <Failure error={error} onOldest={(version) => go({ params: { from: upFrom(left, version), to: upFrom(right, version) } })} /> : data === undefined ? <Loading /> : changes.length === 0 ? <State icon={<Icon name="check" size={32} />} title="Nothing differs">The two moments hold the same{prefix ? " under this prefix" : ""}.</State> : (
          <Rows items={changes} keyOf={(one) => one.id} height={34} label="Entities that differ"
            foot={data.hasMore && <p className="foot"><button className="button" onClick={() => setWanted(wanted * 4)}>Load more</button></p>}
            row={(one) => {
              const show = (): void => go({ params: { id: one.id }, replace: true });
              return { isChosen: one === chosen, onOpen: show, content: <button className="fact-line" tabIndex={-1} onClick={show}><span className={`sign change-${kindOf(one)}`}>{SIGN[kindOf(one)]}</span><span className="fact-main id"><T>{one.id}</T></span></button> };
            }} />
        )}
      </section>
      <section className="pane" aria-label="Both sides">
        {chosen !== undefined && left !== undefined && right !== undefined && <BothSides key={chosen.id} id={chosen.id} change={chosen} left={left} right={right} />}
      </section>
    </div>
  );
}

/** A side as the address has it, no older than the oldest version that is left. */
function upFrom(side: Side | undefined, oldest: number): string | undefined {
  return side === undefined ? undefined : writeSide(side.branch, Math.max(side.version, oldest));
}

const SIGN = { added: "+", removed: "−", changed: "~" } as const;

function kindOf(one: EntityChange): keyof typeof SIGN {
  const isLeft = one.left !== undefined, isRight = one.right !== undefined;
  if (one.patch === undefined && one.body !== undefined && !isLeft) return "added";
  if (one.patch === undefined && one.body === undefined && one.erased === undefined) return "removed";
  return isLeft ? "changed" : isRight ? "added" : "removed";
}

function Sides({ left, right }: { left: Side; right: Side }): ReactElement {
  const { branches, go, head } = useView();
  const names = [MAIN, ...branches.map((one) => one.name).filter((name) => name !== MAIN)];
  const set = (which: "from" | "to", side: Side): void => go({ params: { from: writeSide(left.branch, left.version), to: writeSide(right.branch, right.version), [which]: writeSide(side.branch, side.version) } });
  const pick = (which: "from" | "to", side: Side, label: string): ReactElement => (
    <fieldset className="side-pick"><legend>{label}</legend>
      <select aria-label={`Branch ${label}`} value={side.branch} onChange={(event) => set(which, { ...side, branch: event.currentTarget.value })}>{names.map((name) => <option key={name} value={name}>{visible(name)}</option>)}</select>
      <input aria-label={`Version ${label}`} type="number" min={0} max={head} value={side.version} onChange={(event) => set(which, { ...side, version: Math.min(head, Math.max(0, Number(event.currentTarget.value))) })} />
    </fieldset>
  );
  return (
    <div className="sides">
      {pick("from", left, "from")}
      <button className="button icon-only" aria-label="Swap the two" title="Swap" onClick={() => go({ params: { from: writeSide(right.branch, right.version), to: writeSide(left.branch, left.version) } })}>⇄</button>
      {pick("to", right, "to")}
    </div>
  );
}

function BothSides({ id, change, left, right }: { id: string; change: EntityChange; left: Side; right: Side }): ReactElement {
  const { questions, href } = useView();
  const { data, error } = useAsked(`${left.branch}@${left.version} ${right.branch}@${right.version}`, async () => {
    const side = async (one: Side): Promise<Json | undefined> => (one.version < 1 ? undefined : (await questions.entities(one.branch, [id], one.version)).found.get(id)?.body);
    const [one, other] = await Promise.all([side(left), side(right)]);
    return { one, other };
  });
  if (error !== undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading />;
  return (
    <>
      <div className="pane-head"><h2><a href={href({ screen: "entity", branch: right.branch, at: { kind: "version", version: right.version }, params: { id } })}><T>{id}</T></a></h2>
        {change.erased !== undefined && <span className="hint">erased on {change.erased === "both" ? "both sides" : `the ${change.erased}`}</span>}
        <span className="grow" /><span className="hint">{plural(Array.isArray(change.patch) ? change.patch.length : 1, "step")}</span></div>
      <div className="panel"><Difference left={data.one} right={data.other} names={[`${left.branch} @${left.version}`, `${right.branch} @${right.version}`]} /></div>
    </>
  );
}
