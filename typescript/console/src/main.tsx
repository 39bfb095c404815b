// The web console: opens the space of the address with the key of this browser, and shows the screens.
import { connect, type Database, type Space, StemmaError } from "@stemmadb/client";
import { type ReactElement, useCallback, useEffect, useMemo, useState } from "react";
import { createRoot } from "react-dom/client";
import { navigate, usePathname, useSearch } from "wouter/use-browser-location"; // as they are: those of "wouter" decode a name twice
import { isDid, parse } from "./address.ts";
import * as delegations from "./data/delegations.ts";
import { asError } from "./data/questions.ts";
import { Loading, State } from "./parts/text.tsx";
import { Icon } from "./parts/icons.tsx";
import { App } from "./shell/app.tsx";
import { Connect } from "./shell/connect.tsx";
import { shortDid } from "./text.ts";

const SERVER = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}`;

interface Opened {
  readonly did: string;
  readonly db: Database;
  readonly space: Space;
  readonly name: string;
}

async function open(did: string): Promise<Opened> {
  const delegation = await delegations.find(did);
  const db = await connect(SERVER, { journal: true, delegations: delegation === undefined ? [] : delegations.links(delegation.text), settings: { askMs: 60_000, mostPauseMs: 3_000 } });
  const space = await db.space(did);
  return { did, db, space, name: delegation?.name ?? shortDid(did) };
}

function Root({ me }: { me: string }): ReactElement {
  const path = usePathname();
  const search = useSearch();
  const address = useMemo(() => parse(path, search), [path, search]);
  const did = address !== undefined && isDid(address.did) ? address.did : undefined;
  const [opened, setOpened] = useState<Opened | undefined>();
  const [failure, setFailure] = useState<StemmaError | undefined>();
  const [tries, setTries] = useState(0);
  const again = useCallback(() => setTries((before) => before + 1), []);
  useEffect(() => {
    if (did === undefined) return;
    let isLeft = false;
    let made: Opened | undefined;
    setFailure(undefined);
    setOpened(undefined);
    open(did).then((one) => {
      made = one;
      if (isLeft) void one.db.close({ waitMs: 0 }).catch(() => undefined);
      else setOpened(one);
    }, (error: unknown) => isLeft || setFailure(asError(error)));
    return () => {
      isLeft = true;
      void made?.db.close({ waitMs: 0 }).catch(() => undefined);
    };
  }, [did, tries]);
  useEffect(() => {
    if (failure?.code !== "unreachable") return;
    const timer = setTimeout(again, 2_000);
    return () => clearTimeout(timer);
  }, [failure, again]);
  if (address === undefined || did === undefined) return <Connect me={me} did={undefined} why={address === undefined ? undefined : "This address names no space: a space is a did:key."} onDelegation={again} />;
  if (opened?.did === did && opened !== undefined) return <App key={did} space={opened.space} name={opened.name} me={me} address={address} onDelegation={again} />;
  if (failure?.code === "unreachable") return <main className="connect"><State isWhole icon={<Icon name="cloud" size={32} />} title="The server cannot be reached">Trying again every two seconds. Nothing is lost.</State></main>;
  if (failure !== undefined) return <Connect me={me} did={address.did} why={said(failure)} onDelegation={again} />;
  return <main className="connect"><div className="card"><Loading isWhole rows={5} /></div></main>;
}

/** A click on a link of the console moves within the page; one with a key held opens a tab, as anywhere. */
function followLinks(): void {
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest?.("a[href]") as HTMLAnchorElement | null;
    if (link === null || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const to = new URL(link.href);
    if (to.origin !== location.origin || to.hash || parse(to.pathname, to.search) === undefined) return;
    event.preventDefault();
    if (to.href !== location.href) navigate(to.pathname + to.search);
  });
}

function said(failure: StemmaError): string {
  if (failure.code === "unknown_space") return "This server has no such space, or this page may not read it.";
  return failure.message;
}

async function start(): Promise<void> {
  const root = createRoot(document.getElementById("app")!);
  delegations.answerTabs();
  followLinks();
  try {
    const { identity } = await connect(SERVER);
    root.render(<Root me={identity.did} />);
  } catch (error) {
    root.render(<main className="connect"><State isWhole icon={<Icon name="lock" size={32} />} title="This page cannot make a key" tone="bad">{asError(error).message}</State></main>);
  }
}

void start();
