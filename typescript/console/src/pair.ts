// The page of `stemmadb console --web` (CONSOLE-2). It has no SDK: a key, a question, and one request after the click.
import { KeyRing } from "../../client/src/keys/keyring.ts";
import { keep } from "./data/delegations.ts";
import { visible } from "./text.ts";

// Before anything else: the code must not stay in the address or in the history.
const fragment = location.hash.slice(1);
history.replaceState(null, "", location.pathname);

interface Paired {
  readonly space: string;
  readonly name?: string;
  readonly role?: string;
  readonly expires?: number;
  readonly delegation: string;
}

const app = document.getElementById("app")!;

function element<K extends keyof HTMLElementTagNameMap>(tag: K, className: string, ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children);
  return made;
}

function say(title: string, ...more: (Node | string)[]): void {
  app.replaceChildren(element("main", "connect", element("div", "card", element("h1", "", title), ...more)));
}

function read(text: string): { port: number; code: string; role: string; name: string } | undefined {
  const [port, code, role, ...rest] = text.split(".");
  if (!/^[1-9]\d{0,4}$/.test(port ?? "") || Number(port) > 65_535 || !/^[A-Za-z0-9_-]{10,200}$/.test(code ?? "")) return undefined;
  let name = "";
  try {
    name = decodeURIComponent(rest.join("."));
  } catch {
    name = "";
  }
  return { port: Number(port), code: code!, role: role === "write" ? "write" : "read", name: name.slice(0, 100) };
}

async function pair(port: number, code: string, stays: boolean): Promise<void> {
  const ring = new KeyRing();
  const identity = await ring.identity();
  const signature = await identity.sign(new TextEncoder().encode(`stemma.v1 pair ${code}`));
  const text = btoa(String.fromCharCode(...signature)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const response = await fetch(`http://127.0.0.1:${port}/pair`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ did: identity.did, code, signature: text }), credentials: "omit", cache: "no-store", redirect: "error",
  });
  const answer = (await response.json()) as Partial<Paired> & { message?: string };
  if (!response.ok || typeof answer.space !== "string" || typeof answer.delegation !== "string") throw new Error(answer.message ?? `The command answered ${response.status}.`);
  const { space, name, role, expires, delegation } = answer;
  await keep({ did: space, text: delegation, ...(name === undefined ? {} : { name }), ...(role === undefined ? {} : { role }), ...(expires === undefined ? {} : { expires }) }, stays);
  location.replace(`/console/${space}/entities`);
}

function ask(given: NonNullable<ReturnType<typeof read>>): void {
  const allow = element("button", "button primary large", "Allow");
  const refuse = element("button", "button large", "No");
  const stay = element("input", "");
  stay.type = "checkbox";
  const name = element("bdi", "", given.name ? visible(given.name) : "the space");
  const what = given.role === "write" ? "read and write" : "read";
  const question = element("p", "question", `Let this page ${what} `, element("strong", "", name), " as you, for 8 hours?");
  const isPlain = location.protocol !== "https:";
  const tick = element("label", "tick", stay, " Stay for 8 hours, also when this tab is closed");
  allow.addEventListener("click", () => {
    allow.disabled = refuse.disabled = true;
    allow.textContent = "One moment…";
    pair(given.port, given.code, stay.checked).catch((error: unknown) => {
      say("This did not work", element("p", "why", error instanceof TypeError ? "The command that opened this page does not answer. Run stemmadb console --web again." : (error as Error).message));
    });
  });
  refuse.addEventListener("click", () => say("Nothing was sent", element("p", "", "You can close this page. The command in the terminal ends by itself.")));
  say("StemmaDB console", question, element("p", "hint", "You started this with stemmadb console --web. If you did not, choose No: until you click, nothing is sent."), ...(isPlain ? [tick] : []), element("p", "buttons", allow, refuse));
}

const given = read(fragment);
if (given === undefined) say("This page has been used", element("p", "", "Its address held a code that works once. Run ", element("code", "", "stemmadb console --web"), " again."));
else if (globalThis.crypto?.subtle === undefined) say("This page cannot make a key", element("p", "", "Browsers offer that only on https and on localhost. Serve StemmaDB with TLS."));
else ask(given);

