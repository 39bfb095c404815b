// The page without rights: who it is, how to let it in, and where to paste a delegation (CONSOLE-2).
import { type ReactElement, useEffect, useState } from "react";
import { ROOT } from "../address.ts";
import * as delegations from "../data/delegations.ts";
import { Icon, Mark } from "../parts/icons.tsx";
import { shortDid, visible } from "../text.ts";

export function Connect({ me, did, why, onDelegation }: { me: string; did: string | undefined; why: string | undefined; onDelegation: () => void }): ReactElement {
  const [space, setSpace] = useState(did ?? "");
  const [text, setText] = useState("");
  const [stays, setStays] = useState(false);
  const [known, setKnown] = useState<readonly delegations.Delegation[]>([]);
  useEffect(() => void delegations.known().then(setKnown), []);
  const command = `stemmadb acl delegate ${me} read --for 8h --space ${did ?? "NAME"}`;
  const isDid = space.trim().startsWith("did:key:z");
  const submit = async (event: { preventDefault: () => void }): Promise<void> => {
    event.preventDefault();
    const wanted = space.trim();
    if (!isDid) return;
    if (text.trim()) await delegations.keep({ did: wanted, text: text.trim() }, stays);
    if (wanted === did) onDelegation();
    else location.assign(`${ROOT}/${wanted}/entities`);
  };
  return (
    <main className="connect">
      <div className="card">
        <h1><Mark /> StemmaDB console</h1>
        {why !== undefined && <p className="why" role="alert"><Icon name="lock" /> <bdi>{visible(why)}</bdi></p>}
        {did === undefined && known.length > 0 && (
          <nav aria-label="Spaces" className="spaces">
            <h2>Spaces that this browser may read</h2>
            {known.map((one) => <a key={one.did} className="row-link" href={`${ROOT}/${one.did}/entities`}><strong><bdi>{visible(one.name ?? shortDid(one.did))}</bdi></strong> <span className="hint">{shortDid(one.did)} · {one.role ?? "read"}</span></a>)}
          </nav>
        )}
        <h2>Open a space</h2>
        <p>The quickest way: run <code>stemmadb console --web</code> where you have your keys. Or let this page in by hand:</p>
        <ol>
          <li>
            <p>This page is</p>
            <Copyable text={me} label="identity of this page" />
          </li>
          <li>
            <p>Whoever owns the space runs</p>
            <Copyable text={command} label="command" />
          </li>
          <li>
            <p>Paste what it prints</p>
            <form onSubmit={(event) => void submit(event)}>
              <label>Space<input name="space" required value={space} onInput={(event) => setSpace(event.currentTarget.value)} placeholder="did:key:z6Mk…" spellCheck={false} /></label>
              <label>Delegation<textarea name="delegation" rows={3} value={text} onInput={(event) => setText(event.currentTarget.value)} placeholder="empty if the access list names this page" spellCheck={false} /></label>
              {!delegations.isSecure() && <label className="tick"><input type="checkbox" checked={stays} onChange={(event) => setStays(event.currentTarget.checked)} /> Stay when this tab is closed, for as long as the delegation lives</label>}
              <button className="button primary" disabled={!isDid}>Open</button>
            </form>
          </li>
        </ol>
      </div>
    </main>
  );
}

export function Copyable({ text, label }: { text: string; label: string }): ReactElement {
  const [done, setDone] = useState(false);
  const copy = (): void => void navigator.clipboard.writeText(text).then(() => (setDone(true), setTimeout(() => setDone(false), 1_500)));
  return (
    <div className="copyable">
      <code tabIndex={0}><bdi>{visible(text)}</bdi></code>
      <button type="button" className="button icon-only" aria-label={`Copy the ${label}`} onClick={copy}><Icon name={done ? "check" : "copy"} /></button>
    </div>
  );
}
