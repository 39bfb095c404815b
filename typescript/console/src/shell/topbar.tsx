// The bar on top: space, branch, moment, go to, copy link, own pending and rejected commits, link, theme.
import type { Status } from "@stemmadb/client";
import { type ReactElement, useEffect, useMemo, useState } from "react";
import { HEAD, MAIN, markOf, parseAt, ROOT, write } from "../address.ts";
import { useView } from "../data/view.ts";
import { Icon, Mark } from "../parts/icons.tsx";
import { T, Version, When, Who } from "../parts/text.tsx";
import { grouped, longTime, shortTime, visible } from "../text.ts";
import { noteText } from "../values.ts";
import { Corner } from "./corner.tsx";

const LINKS: { readonly [state: string]: string } = { open: "live", connecting: "connecting", offline: "offline", refused: "refused", closed: "closed" };

export function TopBar({ status, onHelp }: { status: Status; onHelp: () => void }): ReactElement {
  const view = useView();
  const { name, space, branches, address, go, moment, head, commit } = view;
  // The same elements until there are other branches: a space may have thousands.
  const options = useMemo(() => {
    const names = branches.some((one) => one.name === MAIN) ? branches : [{ name: MAIN, fork: 0, head: 0 }, ...branches];
    return names.map((one) => <option key={one.name} value={one.name}>{visible(one.name)}{"deleted" in one && one.deleted ? " (deleted)" : ""}</option>);
  }, [branches]);
  return (
    <header className="topbar">
      <a className="brand" href={ROOT} title={`All spaces\n${space.did}`}><Mark /><strong><bdi>{visible(name)}</bdi></strong></a>
      <label className="branch-pick"><Icon name="branches" /><span className="spoken">Branch</span>
        <select value={address.branch} onChange={(event) => go({ branch: event.currentTarget.value })}>
          {options}
        </select>
      </label>
      <div className="moment" title={commit === undefined ? undefined : longTime(commit.time)}>
        <span className="diamond" aria-hidden="true">◆</span> <Version version={moment.shown} /> <span className="hint">of {grouped(head)}</span>
        {commit !== undefined && <><span className="hint">·</span> <span>{shortTime(commit.time)}</span> <span className="hint">by</span> <Who did={commit.author} />{noteText(commit.note) && <span className="note">“<T max={60}>{noteText(commit.note)}</T>”</span>}</>}
      </div>
      <span className="grow" />
      <GoTo />
      <CopyLink />
      <Corner />
      <span className={`link-state ${status.link}`} title={`Connection: ${status.link}`}><span className="dot" aria-hidden="true" /> {LINKS[status.link]}</span>
      <ThemeButton />
      <button className="button icon-only" aria-label="Help" title="Keys (?)" onClick={onHelp}><Icon name="help" /></button>
    </header>
  );
}

function GoTo(): ReactElement {
  const { go } = useView();
  const [text, setText] = useState("");
  const submit = (event: { preventDefault: () => void }): void => {
    event.preventDefault();
    const wanted = text.trim();
    if (!wanted) return;
    const at = parseAt(wanted.replace(/^@/, ""));
    if (at.kind !== "unreadable") go({ at });
    else if (wanted.endsWith("*")) go({ screen: "entities", params: { prefix: wanted.slice(0, -1) } });
    else if (/[:/#]$/.test(wanted)) go({ screen: "entities", params: { prefix: wanted } });
    else go({ screen: "entity", params: { id: wanted } });
    setText("");
    document.querySelector<HTMLElement>("#screen")?.focus();
  };
  return (
    <form className="goto" role="search" onSubmit={submit}>
      <Icon name="search" />
      <input id="goto" aria-label="Go to" placeholder="Go to id, prefix*, @version, time" value={text} spellCheck={false} onInput={(event) => setText(event.currentTarget.value)} />
      <kbd aria-hidden="true">/</kbd>
    </form>
  );
}

/** The version with its hash, so that the link says so if the history is another one some day. */
function CopyLink(): ReactElement {
  const { address, commit, moment, questions, announce } = useView();
  const [isDone, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    const found = commit ?? (await questions.commit(moment.shown));
    const at = { kind: "version" as const, version: moment.shown, ...(found === undefined ? {} : { mark: markOf(found.hash) }) };
    const link = location.origin + write({ ...address, branch: moment.branch, at: moment.shown === 0 ? HEAD : at });
    try {
      await navigator.clipboard.writeText(link);
    } catch {
      return void prompt("The browser does not let this page copy. The link is:", link);
    }
    announce("The link was copied.");
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  return <button className="button copy-link" onClick={() => void copy()}><Icon name={isDone ? "check" : "copy"} /> {isDone ? "Copied" : "Copy link"}</button>;
}

function ThemeButton(): ReactElement {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const [theme, setTheme] = useState(document.documentElement.dataset["theme"] ?? localStorage.getItem("stemmadb.theme") ?? (dark.matches ? "dark" : "light"));
  useEffect(() => {
    const follow = (): void => void (localStorage.getItem("stemmadb.theme") ?? setTheme(dark.matches ? "dark" : "light"));
    dark.addEventListener("change", follow);
    return () => dark.removeEventListener("change", follow);
  }, []); // eslint-disable-line
  const change = (): void => {
    const next = theme === "dark" ? "light" : "dark";
    localStorage.setItem("stemmadb.theme", next);
    document.documentElement.dataset["theme"] = next;
    setTheme(next);
  };
  return <button className="button icon-only" aria-label={theme === "dark" ? "Light colours" : "Dark colours"} title={theme === "dark" ? "Light" : "Dark"} onClick={change}><Icon name={theme === "dark" ? "sun" : "moon"} /></button>;
}

export { When };
