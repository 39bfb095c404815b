// The frame around all screens: which moment the address means, the bars above, the navigation, the keys.
import type { Space } from "@stemmadb/client";
import { type ReactElement, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { navigate } from "wouter/use-browser-location";
import { type Address, HEAD, MAIN, markOf, type Screen, write } from "../address.ts";
import { Questions } from "../data/questions.ts";
import { type Going, type Moment, type Problem, useAsked, useNow, useStatus, useThrottled, type View, ViewContext } from "../data/view.ts";
import { Icon, type IconName } from "../parts/icons.tsx";
import { Loading, T } from "../parts/text.tsx";
import { EntitiesScreen } from "../screens/entities.tsx";
import { EntityScreen } from "../screens/entity.tsx";
import { grouped, visible } from "../text.ts";
import { Connect } from "./connect.tsx";
import { Help } from "./help.tsx";
import { later } from "./later.tsx";
import { ProblemState } from "./problem.tsx";
import { Timeline } from "./timeline.tsx";
import { TopBar } from "./topbar.tsx";

const PLACES: readonly { readonly screen: Screen; readonly label: string; readonly icon: IconName; readonly also?: Screen }[] = [
  { screen: "entities", label: "Entities", icon: "entities", also: "entity" }, { screen: "commits", label: "Commits", icon: "commits" },
  { screen: "branches", label: "Branches", icon: "branches", also: "merge" }, { screen: "diff", label: "Diff", icon: "diff" }, { screen: "live", label: "Live", icon: "live" },
];
/** What few look at first comes when the first screen is drawn. */
const CommitsScreen = later(() => import("../screens/commits.tsx").then((one) => one.CommitsScreen));
const BranchesScreen = later(() => import("../screens/branches.tsx").then((one) => one.BranchesScreen));
const MergeScreen = later(() => import("../screens/merge.tsx").then((one) => one.MergeScreen));
const DiffScreen = later(() => import("../screens/diff.tsx").then((one) => one.DiffScreen));
const LiveScreen = later(() => import("../screens/live.tsx").then((one) => one.LiveScreen));
const JUMPS: { readonly [key: string]: Screen } = { e: "entities", c: "commits", b: "branches", d: "diff", l: "live" };
const NEEDS_STRUCTURE: readonly Screen[] = ["branches", "merge", "diff"];
const NONE: readonly never[] = [];
const DRAWN_MS = 100;
/** What the whole space has, its branches, tags and rights, is asked at most so often: there may be thousands. */
const STRUCTURE_MS = 2_000;
const RIGHTS_MS = 5_000;

export function App({ space, name, me, address, onDelegation }: { space: Space; name: string; me: string; address: Address; onDelegation: () => void }): ReactElement {
  const status = useStatus(space);
  const now = useNow();
  const [denied, setDenied] = useState<string | undefined>();
  const questions = useMemo(() => new Questions(space, setDenied), [space]);
  const [first, setFirst] = useState<number | undefined>();
  const [spoken, setSpoken] = useState("");
  const [isHelping, setHelping] = useState(false);
  const head = useThrottled(Math.max(first ?? 0, status.asOf?.version ?? 0), DRAWN_MS);
  const here = useRef(address);
  here.current = address;

  // Every commit moves the head of the page, whatever is watched (SYNC-8). A new connection must be told again.
  useEffect(() => {
    if (status.link === "open") space.follow().then((version) => setFirst((before) => Math.max(before ?? 0, version)), () => undefined);
  }, [space, status.link]);

  // The server ends a watch at once when its reader may read nothing any more: by a write, a revocation, or a delegation that is over.
  // One that is at a bound gives the page no watch: then it has to ask.
  useEffect(() => {
    let timer: ReturnType<typeof setInterval> | undefined;
    const deny = (): void => setDenied("It has no rights, or they have ended.");
    const ask = (): void => void questions.rights().then((mine) => mine.role === "none" && deny(), () => undefined);
    const watch = space.watch(space.did);
    const stop = watch.subscribe(() => {
      if (watch.error?.code === "forbidden") deny();
      else if (watch.error !== undefined) timer ??= setInterval(ask, RIGHTS_MS);
    });
    return () => (stop(), watch.close(), clearInterval(timer));
  }, [space, questions]);

  const href = useCallback((to: Going): string => write(target(here.current, to)), []);
  const go = useCallback((to: Going): void => {
    const path = write(target(here.current, to));
    if (path !== location.pathname + location.search) navigate(path, { replace: to.replace ?? false });
  }, []);

  const slowHead = useThrottled(head, STRUCTURE_MS);
  const structure = useAsked(first === undefined || (first > 0 && slowHead === 0) ? undefined : String(slowHead), async () => {
    const [branches, tags, rights] = await Promise.all([questions.branches(), questions.tags(), questions.rights()]);
    return { branches, tags, rights };
  });
  const moment = useMoment(questions, address, head, structure.data?.tags, structure.data?.branches.map((one) => one.name));
  const commit = useAsked(moment === undefined || moment.problem !== undefined || moment.shown === 0 ? undefined : String(moment.shown), () => questions.commit(moment!.shown));
  const shownCommit = commit.data?.version === moment?.shown ? commit.data : undefined;

  const step = useCallback((direction: "prev" | "next"): void => {
    if (moment === undefined || (direction === "next" && moment.version === undefined)) return;
    const { screen, branch, params } = here.current;
    const what = { branch, ...(screen === "entity" ? { id: params["id"] } : screen === "entities" || screen === "live" ? { prefix: params["prefix"] } : {}) };
    void questions.step(direction, moment.shown, what, shownCommit?.time).then((found) => {
      if (found === undefined) return direction === "next" ? go({ at: HEAD }) : setSpoken("There is no earlier change.");
      go({ at: found >= head ? HEAD : { kind: "version", version: found } });
    }, () => undefined);
  }, [moment, questions, go, head, shownCommit]);

  const { branches = NONE as View["branches"], tags = NONE as View["tags"], rights: mine } = structure.data ?? {};
  // The same object until something of it is new: all screens look at it.
  const view = useMemo<View | undefined>(() => (moment === undefined ? undefined : { space, name, questions, address, moment, head, branches, tags, rights: mine, commit: shownCommit, now, me, go, href, announce: setSpoken }),
    [space, name, questions, address, moment, head, branches, tags, mine, shownCommit, now, me, go, href]);

  useKeys({ step, go, help: () => setHelping((before) => !before) });
  useTheme();
  useEffect(() => void (document.title = `${PLACES.find((one) => one.screen === address.screen || one.also === address.screen)?.label ?? "StemmaDB"} · ${visible(name)}`), [address.screen, name]);

  if (denied !== undefined) return <Connect me={me} did={space.did} why={`This page may no longer read here. ${denied}`} onDelegation={onDelegation} />;
  if (status.link === "refused") return <Connect me={me} did={space.did} why={`This page may no longer read here: ${status.error?.message ?? "the server refused it."}`} onDelegation={onDelegation} />;
  if (moment === undefined || view === undefined) return <div className="frame"><main className="screen"><Loading isWhole rows={12} /></main></div>;
  const { rights } = view;
  const isPast = moment.version !== undefined && moment.version < head;
  return (
    <ViewContext.Provider value={view}>
      <div className={`frame ${isPast ? "past" : ""}`}>
        <a className="skip" href="#screen">Skip to the content</a>
        <TopBar status={status} onHelp={() => setHelping(true)} />
        <Timeline step={step} />
        <section className="bars-below" aria-label="Notices">
          {status.link !== "open" && <p className="banner offline" role="status"><Icon name="cloud" /> Offline. What you see is as of @{grouped(status.asOf?.version ?? head)}; trying to connect again. <button className="button" onClick={() => space.nudge()}>Try now</button></p>}
          {isPast && address.screen !== "live" && <p className="banner past-note"><Icon name="clock" /> You are looking at version {grouped(moment.shown)}. Nothing can be changed here. <button className="button" onClick={() => go({ at: HEAD })}>Back to head</button></p>}
          {rights?.prefixes !== undefined && !rights.prefixes.includes("") && <p className="banner narrow">You see <T max={600}>{rights.prefixes.join(", ")}</T> only.</p>}
        </section>
        <div className="body">
          <nav className="places" aria-label="Screens">
            {PLACES.map((place) => (
              <a key={place.screen} href={href({ screen: place.screen, params: {} })} className="place" aria-current={place.screen === address.screen || place.also === address.screen ? "page" : undefined}>
                <Icon name={place.icon} size={18} /><span>{place.label}</span>
              </a>
            ))}
          </nav>
          <main className="screen" id="screen" tabIndex={-1}>{moment.problem !== undefined ? <ProblemState problem={moment.problem} /> : structure.data === undefined && NEEDS_STRUCTURE.includes(address.screen) ? <Loading isWhole rows={12} /> : <Shown screen={address.screen} />}</main>
        </div>
        <Spoken text={spoken} />
        {isHelping && <Help onClose={() => setHelping(false)} />}
      </div>
    </ViewContext.Provider>
  );
}

function Shown({ screen }: { screen: Screen }): ReactElement {
  switch (screen) {
    case "entity": return <EntityScreen />;
    case "commits": return <CommitsScreen />;
    case "branches": return <BranchesScreen />;
    case "merge": return <MergeScreen />;
    case "diff": return <DiffScreen />;
    case "live": return <LiveScreen />;
    default: return <EntitiesScreen />;
  }
}

/** Speaks at most once a second. */
function Spoken({ text }: { text: string }): ReactElement {
  return <p className="spoken" role="status" aria-live="polite">{useThrottled(text, 1_000)}</p>;
}

function target(from: Address, to: Going): Address {
  const screen = to.screen ?? from.screen;
  const kept = screen === from.screen ? from.params : {};
  return { did: from.did, screen, branch: to.branch ?? from.branch, at: to.at ?? from.at, params: { ...kept, ...to.params } };
}

/** The version that the address means; with a mark, whether it is still the same commit. */
function useMoment(questions: Questions, address: Address, head: number, tags: View["tags"] | undefined, branches: readonly string[] | undefined): Moment | undefined {
  const { at, branch } = address;
  const needed = at.kind === "time" || (at.kind === "version" && at.mark !== undefined);
  const key = !needed ? undefined : at.kind === "time" ? `${branch} ${at.time}` : `${at.version}.${at.mark}`;
  const asked = useAsked(head === 0 ? undefined : key, async () => {
    if (at.kind === "time") return { version: await questions.versionAt(branch, at.time) };
    if (at.kind !== "version") return {};
    if (at.version > head) return { isOther: true };
    const commit = await questions.commit(at.version);
    return { version: at.version, isOther: commit !== undefined && markOf(commit.hash) !== at.mark };
  }, key);
  return useMemo(() => {
    if (head === 0 && tags === undefined) return undefined;
    const problem = (one: Problem): Moment => ({ branch, version: head, shown: head, problem: one });
    if (branches !== undefined && branch !== MAIN && !branches.includes(branch)) return problem({ kind: "unknown_branch", text: branch });
    if (at.kind === "head") return { branch, version: undefined, shown: head };
    if (at.kind === "unreadable") return problem({ kind: "unreadable", text: at.text });
    if (at.kind === "tag") {
      const tag = tags?.find((one) => one.name === at.name);
      if (tags === undefined) return undefined;
      return tag === undefined ? problem({ kind: "unknown_tag", text: at.name }) : { branch: tag.branch, version: tag.version, shown: tag.version };
    }
    if (needed && asked.error !== undefined) return problem({ kind: "unreadable", text: asked.error.message });
    if (needed && asked.data === undefined) return undefined;
    if (asked.data?.isOther && needed) return problem({ kind: "history", text: "" });
    const version = at.kind === "version" ? at.version : asked.data?.version ?? head;
    if (version > head) return problem({ kind: "future", text: "", version });
    return { branch, version, shown: version };
  }, [at, branch, head, tags, branches?.join(" "), asked.data, asked.error, needed]); // eslint-disable-line
}

function useKeys(act: { step: (direction: "prev" | "next") => void; go: (to: Going) => void; help: () => void }): void {
  const acts = useRef(act);
  acts.current = act;
  const before = useRef<{ key: string; time: number }>({ key: "", time: 0 });
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const into = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(into.tagName)) return void (event.key === "Escape" && into.blur());
      const { step, go, help } = acts.current;
      const isGoing = before.current.key === "g" && event.timeStamp - before.current.time < 1_500;
      before.current = { key: event.key, time: event.timeStamp };
      if (isGoing && JUMPS[event.key] !== undefined) go({ screen: JUMPS[event.key]!, params: {} });
      else if (event.key === "[") step("prev");
      else if (event.key === "]") step("next");
      else if (event.key === "?") help();
      else if (event.key === "/") document.querySelector<HTMLElement>("#goto")?.focus();
      else if (event.key === "j" || event.key === "k") moveRow(event.key === "j" ? 1 : -1);
      else if (event.key === "End" && into === document.body) go({ at: HEAD });
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

/** The focus goes to the next or previous row of the list; Enter then opens it. */
function moveRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement?.closest<HTMLElement>("[data-row]") as HTMLElement);
  const next = rows[at === -1 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))]!;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function useTheme(): void {
  useEffect(() => {
    const chosen = localStorage.getItem("stemmadb.theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset["theme"] = chosen;
  }, []);
}
