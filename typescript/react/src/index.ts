// @stemmadb/react: hooks over @stemmadb/client. Nothing suspends; on a server every query is "loading" (TS-10).
import type { Draft, FromSchema, Json, PendingCommit, QueryOptions, Schema, Selector, Space, Status, StemmaError, Transaction } from "@stemmadb/client";
import { createContext, createElement, type ReactElement, type ReactNode, useCallback, useContext, useMemo, useSyncExternalStore } from "react";
import { LOADING, type QueryState, sharedWatch } from "./store.ts";

export interface QueryResult<S> {
  readonly data: ReadonlyMap<string, FromSchema<S>>;
  readonly list: readonly FromSchema<S>[];
  readonly state: QueryState;
  readonly error?: StemmaError | undefined;
}
export type Entity<V> = { readonly state: "loading" | "missing" | "there"; readonly value?: V };
export type Transact = <T>(fn: (tx: Draft) => T | Promise<T>, o?: { note?: Json }) => Promise<Transaction<T>>;

const Context = createContext<Space | undefined>(undefined);

export function StemmaProvider(p: { space: Space; children?: ReactNode }): ReactElement {
  return createElement(Context.Provider, { value: p.space }, p.children);
}

export function useSpace(): Space {
  const space = useContext(Context);
  if (space === undefined) throw new Error("There is no space: put a <StemmaProvider space={...}> around this component.");
  return space;
}

/** What a query shows, kept up to date. Equal queries of all components are one watch. */
export function useQuery<const S extends Schema>(selector: Selector, o: QueryOptions<S> = {}): QueryResult<S> {
  const watch = sharedWatch(useSpace(), selector, o);
  return useSyncExternalStore(watch.subscribe, watch.get, loading) as unknown as QueryResult<S>;
}

/** One entity, kept up to date. */
export function useEntity<V extends Json = Json>(id: string): Entity<V> {
  const { state, data } = useQuery(id);
  const value = data.get(id) as V | undefined;
  return useMemo(() => {
    if (value !== undefined) return { state: "there", value };
    return { state: state === "live" || state === "offline" ? "missing" : "loading" };
  }, [state, value]);
}

/** Writes: `const transact = useTransaction(); transact((tx) => tx.set(...))`. The same function on every render. */
export function useTransaction(): Transact {
  const space = useSpace();
  return useCallback((fn, o) => space.transaction(fn, o), [space]);
}

export function useSpaceStatus(): Status {
  const space = useSpace();
  const subscribe = useCallback((listener: () => void) => space.subscribeStatus(listener), [space]);
  const get = useCallback(() => space.status(), [space]);
  return useSyncExternalStore(subscribe, get, get);
}

/** Own commits that are not decided, the oldest first. */
export function usePending(): readonly PendingCommit[] {
  const space = useSpace();
  const status = useSpaceStatus();
  return useMemo(() => (status.pending ? space.pending() : []), [space, status]);
}

function loading(): typeof LOADING {
  return LOADING;
}
