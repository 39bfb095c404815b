// The commits of a branch, newest first; what one of them did, and what taking it back would write.
import type { Json, LogEntry, RevertAnswer, StemmaError } from "@stemmadb/client";
import { type ReactElement, useState } from "react";
import { asError } from "../data/questions.ts";
import { mayWrite, useAsked, useView } from "../data/view.ts";
import { Icon } from "../parts/icons.tsx";
import { Field } from "../parts/json.tsx";
import { Rows } from "../parts/rows.tsx";
import { Loading, State, T, Version, When, Who } from "../parts/text.tsx";
import { Failure } from "../shell/problem.tsx";
import { grouped, longTime, plural, shortDid, visible } from "../text.ts";
import { brief, noteText } from "../values.ts";
import { patchText } from "./entity.tsx";

export function CommitsScreen(): ReactElement {
  const { questions, address, moment, head, go } = useView();
  const [wanted, setWanted] = useState(100);
  const author = address.params["author"];
  const prefix = address.params["prefix"];
  const chosen = Number(address.params["c"] ?? 0) || undefined;
  const upto = chosen !== undefined && chosen + 60 < head ? chosen + 30 : moment.version !== undefined && moment.version + 60 < head ? moment.version + 30 : undefined;
  const { data, error, isAsking } = useAsked(`${upto ?? head} ${wanted}`, async () => {
    const entries: LogEntry[] = [];
    let after: string | undefined;
    do {
      const page = await questions.log({ branch: address.branch, author, prefix, version: upto, after, limit: Math.min(500, wanted - entries.length), ids: true });
      entries.push(...page.entries);
      after = page.next;
    } while (after !== undefined && entries.length < wanted);
    return { entries, hasMore: after !== undefined };
  }, `${address.branch} ${author ?? ""} ${prefix ?? ""}`);
  const entries = data?.entries ?? [];
  return (
    <div className={`split commits ${chosen === undefined ? "" : "with-inspector"}`}>
      <section className="pane" aria-label="Commits">
        <div className="pane-head">
          <h1>Commits</h1>
          <span className="hint">{upto !== undefined && <>up to @{grouped(upto)} · <button className="button tiny" onClick={() => go({ params: { c: undefined }, at: { kind: "head" } })}>newest</button></>}</span>
          {isAsking && data !== undefined && <span className="busy" aria-hidden="true" />}
          <span className="grow" />
          {author !== undefined && <button className="button chip" title={visible(author)} onClick={() => go({ params: { author: undefined } })}>by {shortDid(author)} <Icon name="close" size={12} /></button>}
          <form className="jump" onSubmit={(event) => (event.preventDefault(), go({ params: { prefix: new FormData(event.currentTarget).get("prefix") as string || undefined } }))}><input name="prefix" aria-label="Only commits that touch ids with this prefix" placeholder="Touching prefix…" defaultValue={prefix ?? ""} spellCheck={false} /></form>
        </div>
        {error !== undefined && data === undefined ? <Failure error={error} /> : data === undefined ? <Loading rows={14} /> : entries.length === 0 ? <State icon={<Icon name="empty" size={32} />} title="No commits here">{prefix || author ? "None matches the filter." : "Nothing was written on this branch yet."}</State> : (
          <Rows items={entries} keyOf={(one) => String(one.version)} height={52} label="Commits"
            foot={data.hasMore && <p className="foot"><button className="button" disabled={isAsking} onClick={() => setWanted(Math.min(10_000, wanted * 3))}>Load more</button></p>}
            row={(one) => ({
              className: `${one.version > moment.shown ? "after" : ""} ${one.version === moment.shown ? "touched" : ""}`, isChosen: one.version === chosen,
              onOpen: () => go({ params: { c: String(one.version) }, replace: chosen !== undefined }),
              content: <CommitLine one={one} onOpen={() => go({ params: { c: String(one.version) }, replace: chosen !== undefined })} />,
            })} />
        )}
      </section>
      {chosen !== undefined && <CommitDetails key={chosen} version={chosen} onClose={() => go({ params: { c: undefined } })} />}
    </div>
  );
}

function idsOf(one: LogEntry): readonly string[] | undefined {
  return one.items === undefined ? undefined : [...new Set(one.items.map((item) => item.id))];
}

function CommitLine({ one, onOpen }: { one: LogEntry; onOpen: () => void }): ReactElement {
  const ids = idsOf(one);
  const count = ids?.length ?? one.facts?.length ?? 0;
  return (
    <button className="fact-line" tabIndex={-1} onClick={onOpen}>
      <span className={`node ${one.kind ?? "commit"}`} aria-hidden="true" />
      <span className="fact-main">
        <span className="fact-top"><span className="note strong"><T max={140}>{noteText(one.note) || titleOf(one, ids)}</T></span>{one.kind !== undefined && one.kind !== "commit" && <span className="badge kind">{one.kind}</span>}</span>
        <span className="fact-body"><Version version={one.version} /> <Who did={one.author} /> {ids !== undefined && ids.length > 0 ? <span className="hint ids"><T max={110}>{ids.slice(0, 3).join(", ")}</T>{ids.length > 3 && ` and ${grouped(ids.length - 3)} more`}</span> : count > 0 && <span className="hint">{plural(count, "change")}</span>}</span>
      </span>
      <When time={one.time} />
    </button>
  );
}

export function titleOf(one: LogEntry, ids: readonly string[] | undefined): string {
  const about = one.arguments as { kind?: string; name?: string; source?: string; versions?: readonly number[]; id?: string; floor?: number } | undefined;
  switch (one.kind) {
    case "branch.create": return `Branch ${about?.name ?? ""} begins`;
    case "branch.delete": return `Branch ${about?.name ?? ""} ends`;
    case "tag.create": return `Tag ${about?.name ?? ""}`;
    case "tag.delete": return `Tag ${about?.name ?? ""} removed`;
    case "merge": return `Merge ${about?.source ?? ""} into ${one.branch ?? "main"}`;
    case "revert": return `Take back ${(about?.versions ?? []).slice(0, 5).map((version) => `@${version}`).join(", ")}`;
    case "erase": return `Erase ${about?.id ?? ""}`;
    case "compact": return `Compact below @${about?.floor ?? ""}`;
    default: return ids?.length === 1 ? `Write ${ids[0]}` : `Write ${plural(ids?.length ?? one.facts?.length ?? 0, "entity", "entities")}`;
  }
}

const SIGNS: { readonly [kind: string]: string } = { set: "+", patch: "~", delete: "−", checkpoint: "◇" };

function CommitDetails({ version, onClose }: { version: number; onClose: () => void }): ReactElement {
  const view = useView();
  const { questions, go, href, address, head, moment } = view;
  const { data, error } = useAsked(String(version), async () => ({ commit: await questions.commit(version, true) }));
  const [preview, setPreview] = useState<{ answer?: RevertAnswer; error?: StemmaError } | undefined>();
  const [note, setNote] = useState("");
  const commit = data?.commit;
  const branch = commit?.branch ?? address.branch;
  const before = { branch: address.branch, from: String(Math.max(0, version - 1)) };
  const ask = async (isDry: boolean): Promise<void> => {
    try {
      const answer = await questions.revert(branch, version, { dry_run: isDry, ...(isDry || !note ? {} : { note: { message: note } }) });
      if (isDry) setPreview({ answer });
      else if (answer.version !== undefined) go({ at: { kind: "head" }, params: { c: String(answer.version) } });
    } catch (failed) {
      setPreview({ error: asError(failed) });
    }
  };
  return (
    <aside className="pane inspector" aria-label="Commit">
      <div className="pane-head"><h2>Commit <Version version={version} /></h2><span className="grow" /><button className="button icon-only" aria-label="Close" onClick={onClose}><Icon name="close" /></button></div>
      {error !== undefined ? <Failure error={error} /> : data === undefined ? <Loading rows={5} /> : commit === undefined ? <State icon={<Icon name="lock" size={32} />} title="There is no such commit">Or you may not read what it wrote.</State> : (
        <div className="inspector-body">
          <blockquote><T max={2_000} block>{noteText(commit.note) || titleOf(commit, idsOf(commit))}</T></blockquote>
          <Field label="author"><Who did={commit.author} /> <button className="button tiny" onClick={() => go({ params: { author: commit.author } })}>only these</button></Field>
          <Field label="time">{longTime(commit.time)}</Field>
          {commit.branch !== undefined && <Field label="branch"><T>{commit.branch}</T></Field>}
          {commit.kind !== undefined && commit.kind !== "commit" && <Field label="kind">{commit.kind}</Field>}
          <Field label="hash"><code className="hash">{commit.hash.slice(0, 23)}…</code></Field>
          <p className="buttons">
            <button className="button" disabled={moment.shown === version} onClick={() => go({ at: version >= head ? { kind: "head" } : { kind: "version", version } })}><Icon name="clock" /> Go to this moment</button>
            <a className="button" href={href({ screen: "diff", params: { from: `${branch}@${before.from}`, to: `${branch}@${version}` } })}>Diff</a>
          </p>
          <h3>{plural(commit.items?.filter((one) => one.kind !== "checkpoint").length ?? 0, "change")}</h3>
          <ul className="changes">
            {(commit.items ?? []).filter((one) => one.kind !== "checkpoint").slice(0, 200).map((one) => (
              <li key={one.index}>
                <span className={`sign ${one.kind}`}>{SIGNS[one.kind]}</span>
                <span><a href={href({ screen: "entity", branch, at: { kind: "version", version }, params: { id: one.id, tab: "diff", from: before.from } })}><T>{one.id}</T></a>
                  <span className="fact-body"><T max={240}>{one.kind === "delete" ? "deleted" : one.body === undefined ? "erased or compacted" : one.kind === "patch" ? patchText(one.body) : brief(one.body, 240)}</T></span></span>
              </li>
            ))}
          </ul>
          {(commit.kind === undefined || commit.kind === "commit" || commit.kind === "merge" || commit.kind === "revert") && (
            <div className="revert">
              <h3>Take it back</h3>
              {preview === undefined ? <button className="button" onClick={() => void ask(true)}><Icon name="undo" /> Preview</button> : preview.error !== undefined
                ? <p className="why" role="alert"><T max={600}>{preview.error.code === "conflict" ? `Later commits changed the same places: ${preview.error.message}` : preview.error.message}</T></p>
                : <Preview answer={preview.answer!} />}
              {preview?.answer !== undefined && mayWrite(view) && (preview.answer.writes_count ?? preview.answer.writes?.length ?? 0) > 0 && moment.version === undefined && (
                <form className="buttons" onSubmit={(event) => (event.preventDefault(), void ask(false))}><input aria-label="Why" placeholder="Why?" value={note} onInput={(event) => setNote(event.currentTarget.value)} /><button className="button primary">Revert</button></form>
              )}
            </div>
          )}
        </div>
      )}
    </aside>
  );
}

function Preview({ answer }: { answer: RevertAnswer }): ReactElement {
  const writes = answer.writes ?? [];
  if (!writes.length) return <p className="hint">There is nothing to take back: it is undone already.</p>;
  return (
    <>
      <p className="hint">Dry run: a new commit would write {plural(answer.writes_count ?? writes.length, "entity", "entities")}.</p>
      <ul className="changes">
        {writes.slice(0, 100).map((one) => <li key={one.id}><span className={`sign ${one.kind}`}>{SIGNS[one.kind]}</span><span><T>{one.id}</T><span className="fact-body"><T max={240}>{one.body === undefined ? "deleted" : one.kind === "patch" ? patchText(one.body as Json) : brief(one.body, 240)}</T></span></span></li>)}
      </ul>
    </>
  );
}
