// The corner of the bar for own commits: pending ones, and rejected ones with why, who won, retry, edit and drop.
import type { Json, RejectedCommit } from "@stemmadb/client";
import { type ReactElement, useState } from "react";
import { useStatus, useView } from "../data/view.ts";
import { Icon } from "../parts/icons.tsx";
import { T, Version, Who } from "../parts/text.tsx";
import { plural } from "../text.ts";
import { brief, editable } from "../values.ts";

export function Corner(): ReactElement | null {
  const { space } = useView();
  const status = useStatus(space);
  const [isOpen, setOpen] = useState(false);
  const { pending, rejected } = status;
  if (pending === 0 && rejected === 0) return null;
  return (
    <div className="corner">
      <button className={`button ${rejected ? "alarm" : ""}`} aria-expanded={isOpen} aria-controls="corner-list" onClick={() => setOpen(!isOpen)}>
        {pending > 0 && <span>{pending} pending</span>}{pending > 0 && rejected > 0 && " · "}{rejected > 0 && <span>{rejected} rejected</span>}
      </button>
      {isOpen && (
        <section id="corner-list" className="popover" aria-label="Own commits">
          {pending > 0 && <h3>Pending</h3>}
          {space.pending().slice(0, 50).map((one) => <p key={`${one.session} ${one.local}`} className="own"><span aria-hidden="true">⋯</span> <T max={120}>{one.ids.join(", ")}</T> <span className="hint">on <T>{one.branch}</T>{one.isShown ? "" : ", not in view"}</span></p>)}
          {rejected > 0 && <h3>Rejected</h3>}
          {space.rejected().slice(0, 50).map((one) => <Rejected key={`${one.name.session} ${one.name.local}`} one={one} />)}
        </section>
      )}
    </div>
  );
}

function Rejected({ one }: { one: RejectedCommit }): ReactElement {
  const { go, announce } = useView();
  const [failure, setFailure] = useState("");
  const stale = one.stale[0];
  const operations = one.content.operations;
  const error = one.error;
  const now = "current" in error ? (error.current as ReadonlyMap<string, Json>) : new Map<string, Json>();
  const retry = (): void => void one.retry().then(() => announce("Sent again."), (why: unknown) => setFailure(String((why as Error).message)));
  const edit = (): void => {
    const { id, body } = operations[0]!;
    try {
      sessionStorage.setItem(`stemmadb.draft ${id}`, editable(operations[0]!.op === "set" ? body! : now.get(id) ?? null));
    } catch {
      return setFailure("It is too long to be edited here. Nothing was dropped.");
    }
    one.drop();
    go({ screen: "entity", branch: one.branch, params: { id, tab: "edit" } });
  };
  return (
    <div className="rejected">
      <p><span className="cross" aria-hidden="true">✕</span> {operations.slice(0, 3).map((operation) => <span key={operation.id}>{operation.op} <T>{operation.id}</T> </span>)}
        {operations.length > 3 && <span className="hint">and {plural(operations.length - 3, "more operation")}</span>}
        {stale !== undefined ? <span> — {stale.author === undefined ? "somebody" : <Who did={stale.author} />} was first at <Version version={stale.winner} /></span> : <span className="hint"> — <T>{one.message}</T></span>}
      </p>
      {operations.slice(0, 1).map((operation) => (
        <p key={operation.id} className="versus"><span className="hint">yours</span> <code><T max={120}>{operation.body === undefined ? "(deleted)" : brief(operation.body, 120)}</T></code>
          {now.has(operation.id) && <><span className="hint">now</span> <code><T max={120}>{brief(now.get(operation.id)!, 120)}</T></code></>}</p>
      ))}
      {failure && <p className="why" role="alert"><T max={600}>{failure}</T></p>}
      <p className="buttons">
        <button className="button" onClick={retry}><Icon name="undo" /> Retry on top</button>
        <button className="button" onClick={edit}><Icon name="edit" /> Edit</button>
        <button className="button" onClick={() => one.drop()}>Drop</button>
      </p>
    </div>
  );
}
