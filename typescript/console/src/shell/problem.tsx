// Moments that cannot be shown, and errors of questions: each in one sentence, with a way out (HISTORY-2, CONSOLE-8).
import type { StemmaError } from "@stemmadb/client";
import type { ReactElement } from "react";
import { HEAD, MAIN } from "../address.ts";
import { type Problem, useView } from "../data/view.ts";
import { Icon } from "../parts/icons.tsx";
import { State, T } from "../parts/text.tsx";
import { grouped } from "../text.ts";

export function ProblemState({ problem }: { problem: Problem }): ReactElement {
  const { go, head } = useView();
  const back = <button className="button primary" onClick={() => go({ at: HEAD, branch: problem.kind === "unknown_branch" ? MAIN : undefined as never })}>Go to head</button>;
  switch (problem.kind) {
    case "history": return <State isWhole icon={<Icon name="clock" size={32} />} tone="warn" title="This link is from another history of this space (the server was restored)"><p>The version that it names now is another commit, or is not there.</p>{back}</State>;
    case "future": return <State isWhole icon={<Icon name="clock" size={32} />} tone="warn" title={`Version ${grouped(problem.version)} is not there yet`}><p>The head is @{grouped(head)}.</p>{back}</State>;
    case "unknown_tag": return <State isWhole icon={<Icon name="tag" size={32} />} tone="warn" title="There is no such tag"><p><T>{problem.text}</T></p>{back}</State>;
    case "unknown_branch": return <State isWhole icon={<Icon name="branches" size={32} />} tone="warn" title="There is no such branch"><p><T>{problem.text}</T></p><button className="button primary" onClick={() => go({ branch: MAIN, at: HEAD })}>Go to main</button></State>;
    default: return <State isWhole icon={<Icon name="clock" size={32} />} tone="warn" title="This moment cannot be read"><p><T>{problem.text}</T></p><p>Write a version, <code>head</code>, <code>tag:NAME</code>, or a time such as 2026-11-18T12:00:00Z.</p>{back}</State>;
  }
}

/** `onOldest` goes to the oldest version that is left, where that is not the moment of the address. */
export function Failure({ error, onOldest }: { error: StemmaError; onOldest?: (version: number) => void }): ReactElement {
  const { go, head } = useView();
  if (error.code === "erased") return <State icon={<Icon name="erased" size={32} />} title="Erased on purpose"><p>What stood here at this moment was destroyed. Its place in the history stays.</p></State>;
  if (error.code === "compacted") {
    const oldest = Number(error.details["oldest"] ?? 0);
    return (
      <State icon={<Icon name="erased" size={32} />} title={`Compacted${oldest ? `; the oldest is @${grouped(oldest)}` : ""}`}>
        <p>Older states were dropped to save space.</p>
        {oldest > 0 && <button className="button primary" onClick={() => (onOldest === undefined ? go({ at: { kind: "version", version: oldest } }) : onOldest(oldest))}>Go to @{grouped(oldest)}</button>}
      </State>
    );
  }
  if (error.code === "future_version") return <State icon={<Icon name="clock" size={32} />} tone="warn" title="This version is not there yet"><p>The head is @{grouped(head)}.</p></State>;
  if (error.code === "forbidden") return <State icon={<Icon name="lock" size={32} />} title="You may not read this"><p><T max={600}>{error.message}</T></p></State>;
  if (error.code === "not_found") return <State icon={<Icon name="empty" size={32} />} title="Nothing was ever written here"><p>Or you may not read it: to you the two look the same.</p></State>;
  if (error.code === "unreachable" || error.code === "timed_out") return <State icon={<Icon name="cloud" size={32} />} title="The server does not answer"><p><T max={600}>{error.message}</T></p></State>;
  return <State icon={<Icon name="close" size={32} />} tone="bad" title="This could not be read"><p><T>{error.message}</T></p><p className="hint">{error.code}</p></State>;
}
