// Two values beside each other: signs and colours say what was added, removed and changed.
import type { Json } from "@stemmadb/client";
import { type ReactElement, useMemo } from "react";
import { visible } from "../text.ts";
import { compare, type Row } from "../values.ts";

const SIGNS = { same: [" ", " "], added: [" ", "+"], removed: ["−", " "], changed: ["~", "~"] } as const;
const ROWS_MAX = 1_500;

export function Difference({ left, right, names }: { left: Json | undefined; right: Json | undefined; names: readonly [string, string] }): ReactElement {
  const rows = useMemo(() => compare(left, right), [left, right]);
  return (
    <div className="difference" role="table" aria-label={`What changed from ${visible(names[0])} to ${visible(names[1])}`}>
      <div className="difference-head" role="row">
        <span role="columnheader"><bdi>{visible(names[0])}</bdi></span><span role="columnheader"><bdi>{visible(names[1])}</bdi></span>
      </div>
      {rows.slice(0, ROWS_MAX).map((row, at) => <Pair key={at} row={row} />)}
      {rows.length > ROWS_MAX && <p className="hint">… {rows.length - ROWS_MAX} more lines</p>}
    </div>
  );
}

function Pair({ row }: { row: Row }): ReactElement {
  const [one, other] = SIGNS[row.mark];
  return (
    <div className={`pair ${row.mark}`} role="row">
      <Side text={row.left} sign={one} depth={row.depth} />
      <Side text={row.right} sign={other} depth={row.depth} />
    </div>
  );
}

function Side({ text, sign, depth }: { text: string | undefined; sign: string; depth: number }): ReactElement {
  return (
    <span className={`side ${text === undefined ? "nothing" : ""}`} role="cell">
      <span className="sign">{sign}</span>
      <span className="code" style={{ paddingInlineStart: `${depth * 16}px` }}><bdi>{text === undefined ? "" : visible(text)}</bdi></span>
    </span>
  );
}
