// The page's state outside of components, and the hooks that read it.  A component that selects a part
// is drawn again only when that part is another object.
import { useCallback, useEffect, useLayoutEffect, useState } from "preact/hooks";
import { formatRoute, parseRoute, withQuery, type Route } from "../model/route";
import { kEmpty, reduceAll, type State } from "../model/store";
import type { Hello } from "../model/types";
import { get, serverNow } from "./api";
import { onSession } from "./session";
import { Stream, type Link } from "./stream";

export class Value<T> {
  private readonly listeners = new Set<() => void>();
  constructor(private value: T) {}
  get(): T {
    return this.value;
  }
  set(value: T): void {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const listener of [...this.listeners]) listener();
  }
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useValue<T, R>(source: Value<T>, select: (value: T) => R): R {
  const selected = select(source.get());
  const [, again] = useState({});
  useLayoutEffect(() => {
    let shown = selected;
    const look = () => {
      const fresh = select(source.get());
      if (Object.is(fresh, shown)) return;
      shown = fresh;
      again({});
    };
    look();
    return source.subscribe(look);
  });
  return selected;
}

export const live = new Value<State>(kEmpty);
export const link = new Value<Link>("connecting");
export const hello = new Value<Hello | null>(null);
export const route = new Value<Route>(parseRoute(location.hash));
/** What was said last, for a region that screen readers read out. */
export const said = new Value<{ text: string; isBad: boolean; n: number }>({ text: "", isBad: false, n: 0 });
export const clockTick = new Value<number>(serverNow());

export const useLive = <R>(select: (state: State) => R): R => useValue(live, select);
export const useRoute = (): Route => useValue(route, (r) => r);
/** Now, by the server's clock; drawn again once a second. */
export const useNow = (): number => useValue(clockTick, (t) => t);

export function say(text: string, isBad = false): void {
  said.set({ text, isBad, n: said.get().n + 1 });
}

let read = location.hash; // what `route` was read from

function readRoute(): void {
  read = location.hash;
  route.set(parseRoute(read));
}

export type SetQuery = (changes: Record<string, string | null>) => void;

/**
 * What the address asks of the view that is shown, and how the view changes it.  The address is replaced,
 * which keeps the history of the browser short while one types or sorts.  Once the view was left, if only
 * by an event that is still to come, nothing is changed.
 */
export function useQuery(): [Route["query"], SetQuery] {
  const { view, id, query } = useRoute();
  const set = useCallback((changes: Record<string, string | null>) => {
    const now = route.get();
    if (now.view !== view || now.id !== id || location.hash !== read) return;
    history.replaceState(history.state, "", formatRoute(withQuery(now, changes)));
    readRoute();
  }, [view, id]);
  return [query, set];
}

export const stream = new Stream(
  (events) => live.set(reduceAll(live.get(), events)),
  (state) => link.set(state),
);

/** What the server says of itself; whether it lets us in, the stream finds out. */
function greet(): void {
  get<Hello>("/api/hello").then((reply) => hello.set(reply), () => undefined);
}

export function begin(): void {
  window.addEventListener("hashchange", readRoute);
  greet();
  onSession(() => {
    greet();
    stream.look();
  });
  const follow = () => {
    const { view, id } = route.get();
    stream.show({ sweep: view === "sweep" ? id : null, log: view === "job" ? id : null });
  };
  route.subscribe(follow);
  follow();
  window.setInterval(() => {
    if (document.visibilityState === "visible") clockTick.set(serverNow());
  }, 1000);
}

/** What `load` gives, again whenever `key` changes; the old value stays until then. */
export function useLoaded<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): { value: T | null; error: string | null } {
  const [state, set] = useState<{ value: T | null; error: string | null }>({ value: null, error: null });
  useEffect(() => {
    if (key === null) return undefined;
    const stop = new AbortController();
    load(stop.signal).then(
      (value) => set({ value, error: null }),
      (error: unknown) => {
        if (stop.signal.aborted) return;
        set((old) => ({ value: old.value, error: error instanceof Error ? error.message : String(error) }));
      },
    );
    return () => stop.abort();
  }, [key]);
  return state;
}
