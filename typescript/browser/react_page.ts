// Components over the hooks, rendered in StrictMode by the React that the bundle was made with.
import * as stemma from "@stemmadb/client";
import { createElement as h, type ReactElement, startTransition, StrictMode, useState, version } from "react";
import { createRoot } from "react-dom/client";
import { sharedWatch } from "../react/src/store.ts";
import { StemmaProvider, useEntity, usePending, useQuery, useSpaceStatus, useTransaction } from "@stemmadb/react";

declare global {
  interface Window {
    reactVersion: string;
    renderApp: (space: stemma.Space) => void;
    renderMany: (space: stemma.Space) => void;
    /** Moments at which a component saw data and state that do not belong together. */
    torn: number;
    renders: number;
  }
}
window.stemma = stemma;
window.reactVersion = version;
window.torn = window.renders = 0;

function Row({ id }: { id: string }) {
  const entity = useEntity<{ title: string }>(id);
  return h("li", { id }, entity.value?.title ?? entity.state);
}

function List() {
  // New objects on every render: they are one watch all the same.
  const todos = useQuery("urn:todo:*", { schema: { type: "object", properties: { title: { type: "string" } } } });
  const again = useQuery(["urn:todo:*"].join(), { schema: { type: "object", properties: { title: { type: "string" } } } });
  window.renders += 1;
  if (todos.data !== again.data || (todos.state === "loading" && todos.list.length > 0)) window.torn += 1;
  return h("ul", { id: "list", "data-state": todos.state }, [...todos.data.keys()].map((id) => h(Row, { id, key: id })));
}

function App() {
  const [count, setCount] = useState(0);
  const transact = useTransaction();
  const status = useSpaceStatus();
  const add = () => {
    void transact((tx) => tx.set(`urn:todo:${count}`, { title: `todo ${count}` }));
    startTransition(() => setCount(count + 1));
  };
  return h("main", null, h("button", { id: "add", onClick: add }), h("p", { id: "status" }, status.link), h("p", { id: "pending" }, String(usePending().length)), h(List));
}

const CELLS = 1_000;
let rendered = 0;

/** Slow to render, so that React yields between cells; when half of them are rendered, the data changes. */
function Cell({ space }: { space: stemma.Space }) {
  const { list } = useQuery("urn:cell:*", { schema: { type: "object", properties: { title: { type: "string" } } } });
  for (const until = performance.now() + 0.1; performance.now() < until; );
  rendered += 1;
  if (rendered === CELLS / 2) setTimeout(() => void space.transaction((tx) => tx.update("urn:cell:1", { title: "new" })));
  return h("td", null, list.map((cell) => cell.title).join());
}

function Many({ space }: { space: stemma.Space }) {
  const [isShown, show] = useState(false);
  const cells = Array.from({ length: isShown ? CELLS : 0 }, (_, index) => h(Cell, { key: index, space }));
  return h("table", null, h("tbody", null, h("tr", { id: "many", onClick: () => startTransition(() => show(true)) }, h("th", null, "many"), cells)));
}

function render(space: stemma.Space, ...children: ReactElement[]): void {
  const element = document.body.appendChild(document.createElement("div"));
  createRoot(element).render(h(StrictMode, null, h(StemmaProvider, { space }, ...children)));
}

window.renderApp = (space) => render(space, h(App));

/** Each time the page changes, all cells must show the same. The watch is there already, and no component of this page has
 * it: an update of one would make React render the others anew, and only the hook is to keep them from tearing. */
window.renderMany = (space) => {
  const look = (): void => {
    const shown = new Set([...document.querySelectorAll("#many td")].map((cell) => cell.textContent));
    if (shown.size > 1) window.torn += 1;
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
  sharedWatch(space, "urn:cell:*", { schema: { type: "object", properties: { title: { type: "string" } } } }).subscribe(() => {});
  render(space, h(Many, { space }));
};
