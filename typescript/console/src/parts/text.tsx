// Stored text on the page: text nodes only, each in <bdi>, hidden characters written out (CONSOLE-5).
import type { ReactElement, ReactNode } from "react";
import { useView } from "../data/view.ts";
import { ago, cut, inLine, longTime, shortDid, visible } from "../text.ts";

export function T({ children, max, block }: { children: string; max?: number; block?: boolean }): ReactElement {
  return <bdi>{block ? visible(cut(children, max)) : inLine(children, max)}</bdi>;
}

const HUES = [212, 262, 152, 32, 340, 186, 96, 292];

/** An identity: its colour, and the ends of its key; `you` for one's own. */
export function Who({ did }: { did: string }): ReactElement {
  const { me, space } = useView();
  const name = did === me ? "you" : did === space.did ? "the space" : shortDid(did);
  let hash = 0;
  for (const letter of did) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  return (
    <span className="who" title={did}>
      <span className="dot" aria-hidden="true" style={{ background: `hsl(${HUES[hash % HUES.length]} 62% 52%)` }} />
      <T>{name}</T>
    </span>
  );
}

export function When({ time }: { time: number }): ReactElement {
  const { now } = useView();
  return <time dateTime={new Date(time).toISOString()} title={longTime(time)}>{ago(time, now)}</time>;
}

export function Version({ version }: { version: number }): ReactElement {
  return <span className="version">@{version.toLocaleString("en-US")}</span>;
}

/** What stands in place of content: empty, offline, forbidden, erased. */
export function State({ icon, title, children, tone, isWhole }: { icon: ReactNode; title: string; children?: ReactNode; tone?: "warn" | "bad"; isWhole?: boolean }): ReactElement {
  return (
    <div className={`state ${tone ?? ""}`}>
      <div className="state-icon" aria-hidden="true">{icon}</div>
      {isWhole ? <h1>{title}</h1> : <h2>{title}</h2>}
      {children !== undefined && <div className="state-text">{children}</div>}
    </div>
  );
}

export function Loading({ rows = 8, isWhole }: { rows?: number; isWhole?: boolean }): ReactElement {
  return (
    <div className="loading" role="status" aria-label="Loading">
      {isWhole && <h1 className="spoken">Loading</h1>}
      {Array.from({ length: rows }, (_, at) => <div key={at} className="bone" style={{ width: `${88 - ((at * 37) % 46)}%` }} />)}
    </div>
  );
}
