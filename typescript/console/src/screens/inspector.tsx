// What stands behind one cell: its value, who wrote it last, when and why, and what it was before.
import type { ReactElement } from "react";
import { useAsked, useView } from "../data/view.ts";
import { Icon } from "../parts/icons.tsx";
import { Field, JsonTree } from "../parts/json.tsx";
import { Loading, T, Version, When, Who } from "../parts/text.tsx";
import { Failure } from "../shell/problem.tsx";
import { longTime } from "../text.ts";
import { at, noteText, tokensOf } from "../values.ts";

export function Inspector({ id, path, onClose }: { id: string; path: string; onClose: () => void }): ReactElement {
  const { questions, moment, head, href, go } = useView();
  const tokens = tokensOf(path);
  const { data, error } = useAsked(`${moment.version ?? `head ${head}`} ${path}`, async () => {
    const [{ found, version }, lines] = await Promise.all([questions.entities(moment.branch, [id], moment.version), questions.blame(moment.branch, id, moment.version, path).catch(() => [])]);
    const line = lines.filter((one) => one.version !== undefined).sort((one, other) => other.version! - one.version!)[0];
    const before = line?.version === undefined || line.version < 2 ? undefined : (await questions.entities(moment.branch, [id], line.version - 1).catch(() => undefined))?.found.get(id);
    return { version, entity: found.get(id), line, compacted: lines.some((one) => one.compacted), before: at(before?.body, tokens), wasThere: before !== undefined };
  }, `${moment.branch} ${id}`);
  const value = at(data?.entity?.body, tokens);
  const line = data?.line;
  return (
    <aside className="pane inspector" aria-label="Who wrote this">
      <div className="pane-head"><h2><T max={60}>{id}</T>{path && <code className="path"> <T max={60}>{path}</T></code>}</h2><span className="grow" /><button className="button icon-only" aria-label="Close" onClick={onClose}><Icon name="close" /></button></div>
      {error !== undefined && data === undefined ? <Failure error={error} /> : data === undefined ? <Loading rows={4} /> : (
        <div className="inspector-body">
          <div className="inspector-value">{value === undefined ? <span className="hint">nothing stands here</span> : <JsonTree value={value} />}</div>
          {line?.version !== undefined && (
            <div className="wrote">
              <p className="wrote-who">{line.author !== undefined && <Who did={line.author} />} wrote this {line.time !== undefined && <When time={line.time} />}</p>
              {noteText(line.note) && <blockquote><T max={600}>{noteText(line.note)}</T></blockquote>}
              <Field label="version"><a href={href({ screen: "commits", params: { c: String(line.version) } })}><Version version={line.version} /></a></Field>
              {line.time !== undefined && <Field label="time">{longTime(line.time)}</Field>}
              {data.wasThere && <Field label="before"><span className="was">{data.before === undefined ? <span className="hint">nothing</span> : <JsonTree value={data.before} />}</span></Field>}
              <p className="buttons">
                <button className="button" onClick={() => go({ at: { kind: "version", version: line.version! } })}><Icon name="clock" /> Go to this moment</button>
                <a className="button" href={href({ screen: "commits", params: { c: String(line.version) } })}>The commit</a>
              </p>
            </div>
          )}
          {line === undefined && data.compacted && <p className="hint">Who wrote this was compacted away.</p>}
          <p className="buttons"><a className="button primary" href={href({ screen: "entity", params: { id, path } })}>Open the entity</a></p>
        </div>
      )}
    </aside>
  );
}
