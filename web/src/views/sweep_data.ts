// Everything the sweep's view shows, from the live state, the history and the address.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../live/api";
import { useLive } from "../live/live";
import { chosenColumns, columnsOf, metricKeys, paramNames, paramsOf, type Column, type ColumnSet } from "../model/columns";
import { parseFilter } from "../model/filter";
import { groupRows, type Group } from "../model/groups";
import { asNumber, sortBy } from "../model/order";
import { splitList } from "../model/route";
import { buildRows, cellText, cellValue, type Row } from "../model/rows";
import { kept, type SweepState } from "../model/store";
import type { HistoryJob } from "../model/types";
import { serverNow } from "../live/api";

const kPause = 5000;
const kNoHistory: ReadonlyMap<number, HistoryJob> = new Map();

/** Fetched on entering, and again after attempts have ended, at most each five seconds. */
export function useHistory(id: number, attemptsEnded: number): { history: ReadonlyMap<number, HistoryJob>; error: string | null } {
  const [state, set] = useState<{ history: ReadonlyMap<number, HistoryJob>; error: string | null }>({ history: kNoHistory, error: null });
  const ended = useRef(attemptsEnded);
  const asked = useRef({ at: -Infinity, stop: new AbortController() });
  const [again, setAgain] = useState(0);
  useEffect(() => {
    const { current } = asked;
    current.stop = new AbortController();
    return () => current.stop.abort();
  }, [id]);
  useEffect(() => {
    const { current } = asked;
    const { signal } = current.stop;
    const load = async () => {
      current.at = Infinity; // the next one waits for this one
      try {
        const reply = await get<{ jobs: HistoryJob[] }>(`/api/sweeps/${id}/history`, signal);
        set((old) => ({ error: null, history: new Map(reply.jobs.map((job) => [job.id, kept(old.history.get(job.id), job)])) }));
      } catch (error) {
        if (!signal.aborted) set((old) => ({ ...old, error: error instanceof Error ? error.message : String(error) }));
      }
      current.at = performance.now();
      if (ended.current !== attemptsEnded) setAgain((n) => n + 1);
    };
    ended.current = attemptsEnded;
    if (current.at === Infinity) return undefined;
    const timer = window.setTimeout(() => void load(), Math.max(0, current.at + kPause - performance.now()));
    return () => window.clearTimeout(timer);
  }, [id, attemptsEnded, again]);
  return state;
}

export interface Table {
  set: ColumnSet;
  columns: Column[];
  rows: ReadonlyMap<string, Row>;
  once: Row[];
  shown: Row[]; // filtered and sorted
  groups: Group[] | null;
  groupBy: Column | null;
  sort: { id: string; isFalling: boolean };
  filterError: string | null;
}

export function sortOf(text: string | undefined): { id: string; isFalling: boolean } {
  if (!text) return { id: "", isFalling: false };
  return text.startsWith("-") ? { id: text.slice(1), isFalling: true } : { id: text, isFalling: false };
}

function sortGroups(groups: Group[], by: Column | null, column: Column | undefined, isFalling: boolean): Group[] {
  if (!column) return groups;
  if (column.id === by?.id) return isFalling ? [...groups].reverse() : groups;
  return sortBy(groups, (group) => group.aggregates.get(column.id)?.mean, isFalling);
}

export function useTable(state: SweepState | null, history: ReadonlyMap<number, HistoryJob>, query: Record<string, string>): Table | null {
  const old = useRef<ReadonlyMap<string, Row>>(new Map());
  const sweep = state?.sweep;
  const told = useMemo(() => [...history.values()], [history]);
  const params = useMemo(() => (sweep ? paramsOf(sweep, told) : new Map()), [sweep?.columns, sweep?.rows, sweep?.runs, told]);
  const rows = useMemo(() => {
    if (!state || !sweep) return old.current;
    old.current = buildRows(sweep, state.jobs, params, history, old.current);
    return old.current;
  }, [state?.jobs, sweep?.steps, params, history]);
  const hasRuns = useMemo(() => [...new Set([...rows.values()].filter((r) => !r.isOnce).flatMap((r) => [...r.jobs.keys()]))].sort().join("\n"), [rows]);
  const set = useMemo(() => {
    if (!sweep) return null;
    const isNumeric = (name: string) => [...params.values()].every((values) => !values[name] || asNumber(values[name]) !== null);
    return columnsOf(sweep, hasRuns.split("\n"), paramNames(params), metricKeys(sweep, told), isNumeric);
  }, [sweep?.steps, params, told, hasRuns]);
  const columns = useMemo(() => (set ? chosenColumns(set, splitList(query.cols)) : []), [set, query.cols]);
  const filter = useMemo(() => (set ? parseFilter(query.filter ?? "", new Set(set.all.map((c) => c.id))) : null), [set, query.filter]);
  const sort = useMemo(() => sortOf(query.sort), [query.sort]);
  return useMemo(() => {
    if (!set || !filter) return null;
    const now = serverNow();
    const byId = new Map(set.all.map((column) => [column.id, column]));
    const runs = [...rows.values()].filter((row) => !row.isOnce);
    const matching = query.filter
      ? runs.filter((row) => filter.test(
        (id) => { const column = byId.get(id); return column && cellValue(row, column, now); },
        () => set.all.map((column) => cellText(row, column, now)),
      ))
      : runs;
    const sortColumn = byId.get(sort.id);
    const shown = sortColumn ? sortBy(matching, (row) => cellValue(row, sortColumn, now), sort.isFalling) : matching;
    const groupBy = byId.get(query.group ?? "") ?? null;
    const numeric = columns.filter((c) => c.kind === "metric" || c.kind === "time");
    const groups = groupBy ? sortGroups(groupRows(shown, groupBy, numeric, now), groupBy, sortColumn, sort.isFalling) : null;
    return {
      set, columns, rows, shown, groups, groupBy, sort, filterError: filter.error,
      once: [...rows.values()].filter((row) => row.isOnce),
    };
  }, [rows, set, columns, filter, sort, query.group]);
}

/** The live state of sweep `id`, null until it is there. */
export function useSweep(id: number): SweepState | null {
  return useLive((state) => (state.sweep?.sweep.id === id ? state.sweep : null));
}
