// The rows of a sweep's run table: one a run, one a job of a once-step.  A row whose jobs and values
// are the same objects as before is the same object as before, so that only changed rows are drawn.
import type { Column, Values } from "./columns";
import { duration, number, valueText } from "./format";
import { isLive, worst } from "./states";
import type { HistoryJob, Job, StateName, Sweep } from "./types";

export interface Row {
  key: string; // run's folder name, or "once:STEP"
  run: string;
  index: number | null;
  isOnce: boolean;
  jobs: ReadonlyMap<string, Job>; // by step
  list: readonly Job[]; // in the order of the steps
  state: StateName;
  params: Values;
  metrics: ReadonlyMap<string, unknown>; // "step\0name"
  parts: readonly unknown[]; // what it was made of
}

const kNone: ReadonlyMap<string, unknown> = new Map();
const kNoValues: Values = {};

function metricsOf(history: readonly (HistoryJob | undefined)[]): ReadonlyMap<string, unknown> {
  const metrics = new Map<string, unknown>();
  for (const job of history) {
    for (const [name, value] of Object.entries(job?.last_metrics ?? {})) metrics.set(`${job?.step}\0${name}`, value);
  }
  return metrics.size === 0 ? kNone : metrics;
}

export function buildRows(
  sweep: Sweep, jobs: ReadonlyMap<number, Job>, params: ReadonlyMap<string, Values>,
  history: ReadonlyMap<number, HistoryJob>, old: ReadonlyMap<string, Row>,
): Map<string, Row> {
  const byKey = new Map<string, Job[]>();
  for (const job of jobs.values()) {
    if (job.replaced) continue;
    const key = job.run === "" ? `once:${job.step}` : job.run;
    const list = byKey.get(key);
    if (list) list.push(job);
    else byKey.set(key, [job]);
  }
  const stepAt = new Map(sweep.steps.map((step, i) => [step, i]));
  const made: Row[] = [];
  for (const [key, list] of byKey) {
    list.sort((a, b) => (stepAt.get(a.step) ?? 0) - (stepAt.get(b.step) ?? 0) || a.id - b.id);
    const first = list[0] as Job;
    const isOnce = first.run === "";
    const values = isOnce ? kNoValues : (params.get(first.run) ?? kNoValues);
    const told = list.map((job) => history.get(job.id));
    const parts = [values, ...list, ...told];
    const before = old.get(key);
    if (before && before.parts.length === parts.length && parts.every((part, i) => part === before.parts[i])) {
      made.push(before);
      continue;
    }
    made.push({
      key, run: first.run, index: first.index, isOnce, list, parts, params: values,
      jobs: new Map(list.map((job) => [job.step, job])),
      state: worst(list.map((job) => job.state)),
      metrics: metricsOf(told),
    });
  }
  made.sort((a, b) => (a.index ?? -1) - (b.index ?? -1) || (a.list[0]?.id ?? 0) - (b.list[0]?.id ?? 0));
  return new Map(made.map((row) => [row.key, row]));
}

/** Seconds that its attempts took; of a live one so far, by `now` (ms). */
export function rowSeconds(row: Row, now: number): number | null {
  let sum: number | null = null;
  for (const job of row.list) {
    const seconds = jobSeconds(job, now);
    if (seconds !== null) sum = (sum ?? 0) + seconds;
  }
  return sum;
}

export function jobSeconds(job: Job, now: number): number | null {
  if (isLive(job.state) && job.started_at) return Math.max(0, (now - Date.parse(job.started_at)) / 1000);
  return job.duration_s;
}

export function rowReason(row: Row): string {
  const jobs = row.list.filter((job) => job.state === row.state);
  return jobs.find((job) => job.reason !== "")?.reason || jobs.find((job) => job.status !== "")?.status || "";
}

export function rowName(row: Row): string {
  return row.isOnce ? `${row.list[0]?.step ?? ""} (once)` : row.run;
}

/** The value of a cell, for sorting and filtering; undefined where the row has none. */
export function cellValue(row: Row, column: Column, now: number): unknown {
  switch (column.kind) {
    case "run": return rowName(row);
    case "state": return row.state;
    case "step": return row.jobs.get(column.key)?.state;
    case "time": return rowSeconds(row, now);
    case "param": return row.params[column.key];
    case "metric": return row.metrics.get(column.key);
    case "reason": return rowReason(row);
  }
}

export function cellText(row: Row, column: Column, now: number): string {
  const value = cellValue(row, column, now);
  if (value === null || value === undefined) return "";
  if (column.kind === "time") return duration(value as number);
  if (column.kind === "metric" && typeof value === "number") return number(value);
  return valueText(value);
}
