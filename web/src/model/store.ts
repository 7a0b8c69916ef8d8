// What the page knows, and how events change it.  Pure.  A job that did not change keeps its object,
// and so does whatever holds only such jobs: identity is what the views use to redraw little.
import type { Counts, Devices, Job, Lane, Sweep, SweepSummary } from "./types";

export interface AllState extends Devices {
  jobs: ReadonlyMap<number, Job>;
  sweeps: SweepSummary[];
  counts: Counts;
}

export interface SweepState {
  sweep: Sweep;
  jobs: ReadonlyMap<number, Job>;
  lanes: Lane[];
  endAt: number | null; // when it is expected to end; ms, clock of the server
  isOver: boolean; // nothing of it is queued or live
  attemptsEnded: number; // grows whenever one ended: the history is worth another look
}

export interface LogState { job: number; attempt: number; text: string }
export interface Gap { topic: "all" | "sweep"; why: string; isFinal: boolean } // isFinal: no more of it comes

export interface State {
  all: AllState | null;
  sweep: SweepState | null;
  log: LogState | null;
  gaps: Gap[];
}

export interface LiveEvent { name: string; data: Record<string, unknown>; at: number } // at: ms, clock of the server

export const kEmpty: State = { all: null, sweep: null, log: null, gaps: [] };
const kMostLog = 256 * 1024;

function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => isSame((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key]));
}

/** `fresh`, or the old value where they are equal. */
export function kept<T>(old: T | undefined | null, fresh: T): T {
  return old !== undefined && old !== null && isSame(old, fresh) ? old : fresh;
}

/** The big lists of a sweep change seldom, its counts often: what is equal keeps its object. */
function keptSweep(old: Sweep | undefined, fresh: Sweep): Sweep {
  if (!old) return fresh;
  const mixed = { ...fresh };
  for (const key of ["steps", "columns", "rows", "runs", "counts", "warnings"] as const) {
    // A list that is left out is as it was.
    (mixed as Record<string, unknown>)[key] = key in fresh ? kept(old[key] as unknown, fresh[key]) : old[key];
  }
  return kept(old, mixed);
}

function withJobs(old: ReadonlyMap<number, Job>, changed: readonly Job[], gone: readonly number[]): ReadonlyMap<number, Job> {
  let jobs: Map<number, Job> | null = null;
  const own = () => (jobs ??= new Map(old));
  for (const id of gone) if (old.has(id)) own().delete(id);
  for (const job of changed) {
    const before = (jobs ?? old).get(job.id);
    const after = kept(before, job);
    if (after !== before) own().set(job.id, after);
  }
  return jobs ?? old;
}

function replaceJobs(old: ReadonlyMap<number, Job> | undefined, all: readonly Job[]): ReadonlyMap<number, Job> {
  const jobs = new Map<number, Job>();
  let isChanged = old === undefined || old.size !== all.length;
  for (const job of all) {
    const same = kept(old?.get(job.id), job);
    if (same !== old?.get(job.id)) isChanged = true;
    jobs.set(job.id, same);
  }
  return isChanged || !old ? jobs : old;
}

const list = <T>(data: Record<string, unknown>, key: string): T[] => (Array.isArray(data[key]) ? (data[key] as T[]) : []);

function devices(data: Record<string, unknown>, old: Devices | null): Devices {
  return {
    gpus: kept(old?.gpus, list(data, "gpus")),
    lanes: kept(old?.lanes, list(data, "lanes")),
    cpu_lanes: Number(data.cpu_lanes ?? 0),
    trouble: String(data.trouble ?? ""),
  };
}

const without = (gaps: Gap[], topic: Gap["topic"]): Gap[] =>
  gaps.some((gap) => gap.topic === topic) ? gaps.filter((gap) => gap.topic !== topic) : gaps;

const endOf = (remaining: unknown, at: number): number | null =>
  typeof remaining === "number" ? at + remaining * 1000 : null;

function endedSince(old: ReadonlyMap<number, Job>, fresh: readonly Job[]): number {
  return fresh.filter((job) => {
    const before = old.get(job.id);
    return before !== undefined && (before.attempt !== job.attempt || (before.ended_at !== job.ended_at && job.ended_at !== null));
  }).length;
}

function changeSweep(state: State, change: (sweep: SweepState) => SweepState): State {
  return state.sweep ? { ...state, sweep: change(state.sweep) } : state;
}

/** An event of a name that is not known changes nothing: newer servers may say more. */
export function reduce(state: State, event: LiveEvent): State {
  const { name, data, at } = event;
  switch (name) {
    case "all.snapshot":
      return {
        ...state,
        gaps: without(state.gaps, "all"),
        all: {
          ...devices(data, state.all),
          jobs: replaceJobs(state.all?.jobs, list(data, "jobs")),
          sweeps: kept(state.all?.sweeps, list(data, "sweeps")),
          counts: (data.counts ?? {}) as Counts,
        },
      };
    case "all.changes": {
      if (!state.all) return state;
      const all = { ...state.all, jobs: withJobs(state.all.jobs, list(data, "jobs"), list(data, "gone")) };
      if (Array.isArray(data.sweeps)) all.sweeps = kept(all.sweeps, data.sweeps as SweepSummary[]);
      if (data.counts) all.counts = data.counts as Counts;
      return { ...state, all };
    }
    case "all.devices":
      return state.all ? { ...state, all: { ...state.all, ...devices(data, state.all) } } : state;
    case "sweep.snapshot": {
      const sweep = data.sweep as Sweep;
      const old = state.sweep?.sweep.id === sweep.id ? state.sweep : null;
      const jobs = list<Job>(data, "jobs");
      return {
        ...state,
        gaps: without(state.gaps, "sweep"),
        sweep: {
          sweep: keptSweep(old?.sweep, sweep),
          jobs: replaceJobs(old?.jobs, jobs),
          lanes: kept(old?.lanes, list(data, "lanes")),
          endAt: endOf(sweep.remaining_s, at),
          isOver: false,
          attemptsEnded: (old?.attemptsEnded ?? 0) + (old ? endedSince(old.jobs, jobs) : 0),
        },
      };
    }
    case "sweep.job": {
      const job = data.job as Job;
      return changeSweep(state, (old) => {
        if (job.sweep_id !== old.sweep.id) return old;
        const jobs = withJobs(old.jobs, [job], []);
        return jobs === old.jobs ? old : { ...old, jobs, isOver: false, attemptsEnded: old.attemptsEnded + endedSince(old.jobs, [job]) };
      });
    }
    case "sweep.sweep": {
      const sweep = data.sweep as Sweep;
      return changeSweep(state, (old) =>
        sweep.id === old.sweep.id ? { ...old, sweep: keptSweep(old.sweep, sweep), endAt: endOf(sweep.remaining_s, at) } : old);
    }
    case "sweep.lanes":
      return changeSweep(state, (old) => ({ ...old, lanes: kept(old.lanes, list(data, "lanes")) }));
    case "sweep.remaining":
      return changeSweep(state, (old) => ({ ...old, endAt: endOf(data.remaining_s, at) }));
    case "sweep.end":
      return changeSweep(state, (old) => ({ ...old, isOver: true, endAt: null }));
    case "log.reset":
      return { ...state, log: { job: Number(data.job), attempt: Number(data.attempt), text: String(data.text ?? "") } };
    case "log.more": {
      if (!state.log) return state;
      const text = state.log.text + String(data.text ?? "");
      return { ...state, log: { ...state.log, text: text.length > kMostLog * 1.25 ? text.slice(text.length - kMostLog) : text } };
    }
    case "failed": // there is no such sweep, or no more of it
    case "gap": {
      const topic = data.topic === "sweep" ? "sweep" : "all";
      return { ...state, gaps: [...without(state.gaps, topic), { topic, why: String(data.why ?? ""), isFinal: event.name === "failed" }] };
    }
    default:
      return state;
  }
}

/** Runs of sweep.job are applied with one copy of the map, so that 1,000 at once cost one pass. */
export function reduceAll(state: State, events: readonly LiveEvent[]): State {
  let i = 0;
  while (i < events.length) {
    const event = events[i] as LiveEvent;
    if (event.name !== "sweep.job" || !state.sweep) {
      state = reduce(state, event);
      i += 1;
      continue;
    }
    const batch: Job[] = [];
    const old: SweepState = state.sweep;
    let isEnded = 0;
    const latest = new Map<number, Job>();
    for (; i < events.length && events[i]?.name === "sweep.job"; i += 1) {
      const job = events[i]?.data.job as Job;
      if (job.sweep_id !== old.sweep.id) continue;
      const before = latest.get(job.id) ?? old.jobs.get(job.id);
      if (before) isEnded += endedSince(new Map([[job.id, before]]), [job]);
      latest.set(job.id, job);
      batch.push(job);
    }
    const jobs = withJobs(old.jobs, batch, []);
    if (jobs !== old.jobs) {
      state = { ...state, sweep: { ...old, jobs, isOver: false, attemptsEnded: old.attemptsEnded + isEnded } };
    }
  }
  return state;
}
