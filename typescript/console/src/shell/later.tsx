// A screen whose code comes later: fetched when it is shown, or when the browser has nothing else to do.
import { createElement, type FunctionComponent, type ReactElement, useEffect, useState } from "react";
import { Loading } from "../parts/text.tsx";

const IDLE_MS = 1_500;

export function later(load: () => Promise<FunctionComponent>): FunctionComponent {
  let found: FunctionComponent | undefined;
  const fetched = (): Promise<unknown> => load().then((one) => (found = one));
  setTimeout(() => void fetched().catch(() => undefined), IDLE_MS);
  return function Later(): ReactElement {
    const [, setReady] = useState(found !== undefined);
    useEffect(() => {
      if (found === undefined) void fetched().then(() => setReady(true));
    }, []);
    return found === undefined ? <Loading isWhole rows={10} /> : createElement(found);
  };
}
