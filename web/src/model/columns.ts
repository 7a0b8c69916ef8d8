// The columns of a sweep's run table: what is fixed, its steps, its parameters, its metrics.  The id
// of a column stands in the address, and is what filter and sort call it.
import { compareNatural } from "./order";
import type { HistoryJob, Sweep } from "./types";
import { valueText } from "./format";

export type Kind = "run" | "state" | "step" | "time" | "param" | "metric" | "reason";
export interface Column {
  id: string;
  title: string;
  kind: Kind;
  key: string; // of the step, parameter or metric
  isNumeric: boolean;
}

export type Values = Record<string, string>;

/** Per run (its folder name): its parameters as texts.  The history knows all, the sweep those that differ. */
export function paramsOf(sweep: Sweep, history: readonly HistoryJob[]): Map<string, Values> {
  const byRun = new Map<string, Values>();
  sweep.runs.forEach((run, i) => {
    const values: Values = {};
    sweep.columns.forEach((name, c) => { values[name] = sweep.rows[i]?.[c] ?? ""; });
    byRun.set(run, values);
  });
  for (const job of history) {
    if (job.run === "" || job.replaced) continue;
    const known = byRun.get(job.run) ?? {};
    for (const [name, value] of Object.entries(job.params ?? {})) {
      if (!(name in known)) known[name] = valueText(value);
    }
    byRun.set(job.run, known);
  }
  return byRun;
}

/** Names of all parameters, those first that differ. */
export function paramNames(byRun: ReadonlyMap<string, Values>): { differing: string[]; same: string[] } {
  const seen = new Map<string, Set<string>>();
  for (const values of byRun.values()) {
    for (const name of Object.keys(values)) if (!seen.has(name)) seen.set(name, new Set());
  }
  for (const values of byRun.values()) {
    for (const [name, texts] of seen) if (texts.size < 2) texts.add(values[name] ?? "");
  }
  const names = [...seen.keys()];
  return {
    differing: names.filter((name) => (seen.get(name)?.size ?? 0) > 1),
    same: names.filter((name) => (seen.get(name)?.size ?? 0) <= 1),
  };
}

/** Metrics that some job told, numbers and texts; "step/loss" where two steps call theirs alike. */
export function metricKeys(sweep: Sweep, history: readonly HistoryJob[]): { step: string; name: string; id: string }[] {
  const stepsOf = new Map<string, Set<string>>();
  for (const job of history) {
    if (job.run === "" || job.replaced) continue;
    for (const name of Object.keys(job.last_metrics ?? {})) {
      const steps = stepsOf.get(name) ?? new Set();
      steps.add(job.step);
      stepsOf.set(name, steps);
    }
  }
  const keys: { step: string; name: string; id: string }[] = [];
  const orderOf = (step: string) => sweep.steps.indexOf(step);
  for (const [name, steps] of [...stepsOf].sort((a, b) => compareNatural(a[0], b[0]))) {
    for (const step of [...steps].sort((a, b) => orderOf(a) - orderOf(b))) {
      keys.push({ step, name, id: steps.size > 1 ? `${step}/${name}` : name });
    }
  }
  return keys;
}

/** Counters of the training: nobody compares runs by them, so they are there when asked for. */
const isCounter = (column: Column): boolean => /(^|\0)(step|epoch|iteration|time|timestamp)$/.test(column.key);

const kFixed: Record<string, Column> = {
  run: { id: "run", title: "Run", kind: "run", key: "", isNumeric: false },
  state: { id: "state", title: "State", kind: "state", key: "", isNumeric: false },
  time: { id: "time", title: "Time", kind: "time", key: "", isNumeric: true },
  reason: { id: "reason", title: "Reason", kind: "reason", key: "", isNumeric: false },
};

export interface ColumnSet { all: Column[]; standard: Column[] }

/** Steps that run once for the sweep have rows, not columns. */
export function columnsOf(
  sweep: Sweep, runSteps: readonly string[], names: { differing: string[]; same: string[] },
  metrics: readonly { step: string; name: string; id: string }[],
  isNumeric: (id: string) => boolean,
): ColumnSet {
  const taken = new Set(Object.keys(kFixed));
  const unique = (id: string, kind: string): string => {
    const free = taken.has(id) ? `${kind}.${id}` : id;
    taken.add(free);
    return free;
  };
  const steps = sweep.steps.filter((s) => runSteps.includes(s)).map((step): Column =>
    ({ id: unique(step, "step"), title: step, kind: "step", key: step, isNumeric: false }));
  const param = (name: string): Column => {
    const id = unique(name, "param");
    return { id, title: name, kind: "param", key: name, isNumeric: isNumeric(name) };
  };
  const differing = names.differing.map(param);
  const same = names.same.map(param);
  const told = metrics.map((metric): Column =>
    ({ id: unique(metric.id, "metric"), title: metric.id, kind: "metric", key: `${metric.step}\0${metric.name}`, isNumeric: true }));
  const fixed = kFixed as Record<"run" | "state" | "time" | "reason", Column>;
  const head = steps.length > 1 ? [fixed.run, ...steps] : [fixed.run, ...(steps.length ? steps : [fixed.state])];
  const hidden = steps.length > 0 ? [fixed.state] : [];
  const standard = [...head, fixed.time, ...differing, ...told.filter((column) => !isCounter(column)), fixed.reason];
  return { all: [...head, ...hidden, fixed.time, ...differing, ...same, ...told, fixed.reason], standard };
}

/** `cols` of the address: "" the standard ones, "all", or a list of ids (unknown ones are left out). */
export function chosenColumns(set: ColumnSet, wanted: readonly string[]): Column[] {
  if (wanted.length === 0) return set.standard;
  if (wanted.length === 1 && wanted[0] === "all") return set.all;
  const chosen = set.all.filter((column) => column.kind === "run" || wanted.includes(column.id));
  return chosen.length > 1 ? chosen : set.standard;
}
