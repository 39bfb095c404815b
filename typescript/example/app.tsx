// A shared todo list: live, optimistic, with a branch to try things on. Open it in two tabs.
import { connect, type Database, type Space } from "@stemmadb/client";
import { StemmaProvider, usePending, useQuery, useSpace, useSpaceStatus, useTransaction } from "@stemmadb/react";
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";

interface Todo {
  title: string;
  done: boolean;
}

function Todos() {
  const { data, state } = useQuery("urn:todo:*");
  const transact = useTransaction();
  const [title, setTitle] = useState("");
  const add = () => {
    void transact((tx) => tx.create(`urn:todo:${crypto.randomUUID()}`, { title, done: false }));
    setTitle("");
  };
  const tick = (id: string, done: boolean) => transact((tx) => tx.patch(id, [{ op: "replace", path: "/done", value: done }]));
  return (
    <>
      <form onSubmit={(event) => (event.preventDefault(), title && add())}>
        <input id="title" value={title} onChange={(event) => setTitle(event.target.value)} placeholder="What is to be done?" />
      </form>
      <ul data-state={state}>
        {[...(data as ReadonlyMap<string, unknown> as ReadonlyMap<string, Todo>)].map(([id, todo]) => (
          <li key={id}>
            <label>
              <input type="checkbox" checked={todo.done} onChange={(event) => void tick(id, event.target.checked)} /> {todo.title}
            </label>
          </li>
        ))}
      </ul>
    </>
  );
}

function StatusLine() {
  const status = useSpaceStatus();
  const pending = usePending();
  return <p id="status">{`${status.link} · ${pending.length} pending · ${status.rejected} rejected`}</p>;
}

function Branches({ go }: { go: (space: Space) => void }) {
  const space = useSpace();
  const isDraft = space.branchName !== "main";
  const leave = async () => {
    await space.mergeInto("main", { strategy: "fields" });
    go(await space.branch("main"));
  };
  const enter = async () => go(await space.branch(`try-${Date.now()}`, { create: true }));
  return <button id="branch" onClick={() => void (isDraft ? leave() : enter())}>{isDraft ? "Merge into main" : "Try something on a branch"}</button>;
}

function App({ first }: { first: Space }) {
  const [space, setSpace] = useState(first);
  return (
    <StemmaProvider space={space}>
      <h1>Todos on {space.branchName}</h1>
      <Branches go={setSpace} />
      <Todos />
      <StatusLine />
    </StemmaProvider>
  );
}

async function start(): Promise<void> {
  const given = new URLSearchParams(location.search);
  const db: Database = await connect(given.get("server") ?? "ws://127.0.0.1:8420", { journal: true });
  const space = await db.space(given.get("space") ?? "todo");
  createRoot(document.getElementById("app")!).render(<StrictMode><App first={space} /></StrictMode>);
}

start().catch((error: unknown) => (document.getElementById("app")!.textContent = String(error)));
