// Writes a new value at the head. What is refused stays as a rejected commit in the corner of the bar.
import { type Json, StemmaError, type Watch } from "@stemmadb/client";
import { type ReactElement, useEffect, useRef, useState } from "react";
import type { WholeEntity } from "../data/questions.ts";
import { useView } from "../data/view.ts";
import { T } from "../parts/text.tsx";
import { editable } from "../values.ts";
import { equal, parse } from "../../../client/src/values/json.ts";

export function Editor({ id, entity }: { id: string; entity: WholeEntity | undefined }): ReactElement {
  const { space, address, go, href, announce } = useView();
  const [text, setText] = useState(() => sessionStorage.getItem(`stemmadb.draft ${id}`) ?? (entity === undefined ? "{}" : editable(entity.body)));
  const [note, setNote] = useState("");
  const [failure, setFailure] = useState("");
  const [isOver, setOver] = useState(false);
  const [isReady, setReady] = useState(false);
  const begun = useRef<Json | undefined>(entity?.body);
  const leave = (): void => {
    sessionStorage.removeItem(`stemmadb.draft ${id}`);
    go({ params: { tab: undefined } });
  };
  // What is watched is in view, so that saving works while the server is away: the commit is pending then.
  useEffect(() => {
    let watch: Watch | undefined;
    let isLeft = false;
    void space.branch(address.branch).then(async (on) => {
      if (isLeft) return;
      watch = on.watch(id);
      await watch.ready;
      setReady(true);
    }).catch(() => undefined);
    return () => {
      isLeft = true;
      watch?.close();
    };
  }, [space, address.branch, id]);
  const save = async (event: { preventDefault: () => void }): Promise<void> => {
    event.preventDefault();
    setFailure("");
    setOver(false);
    try {
      const value = parse(text) as Json;
      const on = await space.branch(address.branch);
      const tx = await on.transaction(async (draft) => {
        const now = await draft.get(id);
        if (!isSame(now, begun.current)) {
          begun.current = now; // a second click means it
          throw new Changed();
        }
        draft.set(id, value);
      }, note ? { note: { message: note } } : {});
      await tx.confirmed();
      announce("Saved.");
      leave();
    } catch (error) {
      if (error instanceof Changed) setOver(true);
      else setFailure(error instanceof StemmaError ? error.message : `This is not JSON: ${(error as Error).message}`);
    }
  };
  return (
    <form className="editor" onSubmit={(event) => void save(event)}>
      <label>Value, as JSON<textarea name="value" rows={18} spellCheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
      <label>Why<input name="note" value={note} onInput={(event) => setNote(event.currentTarget.value)} placeholder="a note for those who will ask" /></label>
      {failure && <p className="why" role="alert"><T max={600}>{failure}</T></p>}
      {isOver && <p className="why" role="alert">Somebody changed it while you were writing. <a href={href({ params: { tab: "history" } })}>See what</a>, or save again to write yours on top.</p>}
      <p className="buttons"><button className="button primary" disabled={!isReady}>Save</button><button type="button" className="button" onClick={leave}>Cancel</button></p>
    </form>
  );
}

class Changed extends Error {}

function isSame(one: Json | undefined, other: Json | undefined): boolean {
  return one === undefined || other === undefined ? one === other : equal(one, other);
}
