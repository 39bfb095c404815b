// Components over the hooks, rendered in StrictMode by the React that the bundle was made with.
import * as stemma from "@stemmadb/client";
import { createElement as h, startTransition, StrictMode, useState, version } from "react";
import { createRoot } from "react-dom/client";
import { StemmaProvider, useEntity, usePending, useQuery, useSpaceStatus, useTransaction } from "@stemmadb/react";

declare global {
  interface Window {
    reactVersion: string;
    renderApp: (space: stemma.Space) => void;
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

window.renderApp = (space) => {
  const element = document.body.appendChild(document.createElement("div"));
  createRoot(element).render(h(StrictMode, null, h(StemmaProvider, { space }, h(App))));
};
