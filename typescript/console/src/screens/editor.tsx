// Writes a new value at the head. What is refused stays as a rejected commit in the corner of the bar.
import { type Json, StemmaError } from "@stemmadb/client";
import { type ReactElement, useEffect, useRef, useState } from "react";
import type { WholeEntity } from "../data/questions.ts";
import { useView } from "../data/view.ts";
import { parse, stringify } from "../../../client/src/values/json.ts";

export function Editor({ id, entity }: { id: string; entity: WholeEntity | undefined }): ReactElement {
  const { space, address, go, announce } = useView();
  const [text, setText] = useState(() => sessionStorage.getItem(`stemmadb.draft ${id}`) ?? pretty(entity?.body));
  const [note, setNote] = useState("");
  const [failure, setFailure] = useState("");
  const isDirty = useRef(false);
  useEffect(() => sessionStorage.removeItem(`stemmadb.draft ${id}`), [id]);
  const save = async (event: { preventDefault: () => void }): Promise<void> => {
    event.preventDefault();
    setFailure("");
    try {
      const value = parse(text) as Json;
      const on = await space.branch(address.branch);
      const tx = await on.transaction(async (draft) => {
        await draft.get(id);
        draft.set(id, value);
      }, note ? { note: { message: note } } : {});
      await tx.confirmed();
      announce("Saved.");
      go({ params: { tab: undefined } });
    } catch (error) {
      setFailure(error instanceof StemmaError ? error.message : `This is not JSON: ${(error as Error).message}`);
    }
  };
  return (
    <form className="editor" onSubmit={(event) => void save(event)}>
      <label>Value, as JSON<textarea name="value" rows={18} spellCheck={false} value={text} onInput={(event) => ((isDirty.current = true), setText(event.currentTarget.value))} /></label>
      <label>Why<input name="note" value={note} onInput={(event) => setNote(event.currentTarget.value)} placeholder="a note for those who will ask" /></label>
      {failure && <p className="why" role="alert">{failure}</p>}
      <p className="buttons"><button className="button primary">Save</button><button type="button" className="button" onClick={() => go({ params: { tab: undefined } })}>Cancel</button></p>
    </form>
  );
}

function pretty(value: Json | undefined): string {
  if (value === undefined) return "{}";
  const text = stringify(value);
  return text.includes("__proto__") || /\d{16}/.test(text) ? text : JSON.stringify(JSON.parse(text), null, 2);
}
