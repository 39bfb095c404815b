// The keys, in a dialog.
import { type ReactElement, useEffect, useRef } from "react";

const KEYS: readonly (readonly [string, string])[] = [
  ["/", "Go to an id, a prefix, a version or a time"], ["[  ]", "One change back, one change on"], ["← →", "The same, on the handle of the timeline"], ["Home  End", "The first commit, the head"],
  ["j  k", "Next row, previous row; Enter opens it"], ["g e", "Entities"], ["g c", "Commits"], ["g b", "Branches"], ["g d", "Diff"], ["g l", "Live"], ["?", "This help"],
];

export function Help({ onClose }: { onClose: () => void }): ReactElement {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} className="help" aria-labelledby="help-title" onClose={onClose}>
      <h2 id="help-title">Keys</h2>
      <dl>{KEYS.map(([key, does]) => <div key={key}><dt>{key.split("  ").map((one) => <kbd key={one}>{one}</kbd>)}</dt><dd>{does}</dd></div>)}</dl>
      <p className="hint">Drag the handle of the timeline to travel. Shift-drag chooses two moments and shows what changed between them. The address always names what you see: send it.</p>
      <form method="dialog"><button className="button primary" autoFocus>Close</button></form>
    </dialog>
  );
}
