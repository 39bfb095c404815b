// What every screen stands on: the space, the address, the moment it means, and how to go elsewhere.
import type { BranchEntry, Json, LogEntry, Rights, Space, Status, StemmaError, TagEntry } from "@stemmadb/client";
import { createContext, useContext, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { Address, At, Params, Screen } from "../address.ts";
import { Latest } from "./latest.ts";
import { asError, type Questions } from "./questions.ts";

export interface Going {
  readonly screen?: Screen;
  readonly branch?: string;
  readonly at?: At;
  /** The parameters of the screen; those that are not named stay, if the screen does. */
  readonly params?: Params;
  readonly replace?: boolean;
}

/** The moment that an address means. `version` is undefined at the head, which moves. */
export interface Moment {
  readonly branch: string;
  readonly version: number | undefined;
  /** The version that is shown: the head's, or the one chosen. */
  readonly shown: number;
  readonly problem?: Problem;
}
export type Problem =
  | { readonly kind: "unreadable" | "history" | "unknown_tag" | "unknown_branch"; readonly text: string }
  | { readonly kind: "future"; readonly text: string; readonly version: number };

export interface View {
  readonly space: Space;
  readonly name: string;
  readonly questions: Questions;
  readonly address: Address;
  readonly moment: Moment;
  readonly head: number;
  readonly branches: readonly BranchEntry[];
  readonly tags: readonly TagEntry[];
  readonly rights: Rights | undefined;
  /** The commit of the moment, as soon as it is known. */
  readonly commit: LogEntry | undefined;
  readonly now: number;
  readonly me: string;
  readonly go: (to: Going) => void;
  readonly href: (to: Going) => string;
  readonly announce: (text: string) => void;
}

export const ViewContext = createContext<View | undefined>(undefined);

export function useView(): View {
  const view = useContext(ViewContext);
  if (view === undefined) throw new Error("There is no view around this component.");
  return view;
}

export function mayWrite(view: View, id?: string): boolean {
  const { rights } = view;
  if (rights === undefined || (rights.role !== "write" && rights.role !== "own")) return false;
  const prefixes = rights.prefixes ?? [""];
  return id === undefined ? prefixes.includes("") : prefixes.some((prefix) => id.startsWith(prefix));
}

export interface Asked<T> {
  /** The last answer; it stays until there is a newer one. */
  readonly data: T | undefined;
  readonly error: StemmaError | undefined;
  readonly isAsking: boolean;
  readonly key: string | undefined;
}

/** Asks when `key` changes. `subject` says what the answers are about: with another one, old answers go at once. */
export function useAsked<T>(key: string | undefined, ask: () => Promise<T>, subject = ""): Asked<T> {
  const [answer, setAnswer] = useState<{ data?: T | undefined; error?: StemmaError | undefined; key?: string; subject?: string }>({});
  const asking = useRef<Latest<T>>(undefined);
  const about = useRef(subject);
  about.current = subject;
  useEffect(() => {
    if (key === undefined) return;
    asking.current ??= new Latest<T>(({ data, error, key: of }) => {
      const [asked, topic] = of.split("\u0000\u0000") as [string, string];
      if (topic !== about.current) return;
      setAnswer((before) => (error === undefined ? { data: data as T, key: asked, subject: topic } : { data: before.subject === topic ? before.data : undefined, error: asError(error), key: asked, subject: topic }));
    });
    asking.current.want(`${key}\u0000\u0000${subject}`, ask);
  }, [key, subject]); // eslint-disable-line
  useEffect(() => () => void (asking.current?.close(), (asking.current = undefined)), []);
  return useMemo(() => {
    const isSame = answer.subject === subject;
    return { data: isSame ? answer.data : undefined, error: isSame ? answer.error : undefined, isAsking: key !== undefined && (!isSame || answer.key !== key), key: answer.key };
  }, [answer, key, subject]);
}

export function useStatus(space: Space): Status {
  const subscribe = useMemo(() => (listener: () => void) => space.subscribeStatus(listener), [space]);
  return useSyncExternalStore(subscribe, () => space.status());
}

/** The time, a few times a minute: for texts such as `3m ago`. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 15_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** Changes as often as the value does, but at most once in `ms`: the last value always comes. */
export function useThrottled<T>(value: T, ms: number): T {
  const [shown, setShown] = useState(value);
  const last = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, last.current + ms - Date.now());
    const timer = setTimeout(() => {
      last.current = Date.now();
      setShown(value);
    }, wait);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return shown;
}

/** The value as it is once it has not changed for a while: for what nobody needs in the middle of a drag. */
export function useStill<T>(value: T, ms: number): T {
  const [shown, setShown] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setShown(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return shown;
}

export type { Json };
