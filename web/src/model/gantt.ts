// Layout of the chart of lanes over time: attempts to bars, pure, in ms and pixels.  A lane has as
// many tracks as attempts overlap on it.  Ended bars depend on the span only, which moves in steps:
// while time goes by only live bars and the line of now are drawn again.
import { parseTime } from "./format";
import { compareNatural } from "./order";
import { isLive } from "./states";
import type { HistoryJob, Job, WireAttempt } from "./types";

export interface Attempt {
  key: string; // "17.2"; of one with several GPUs on each further lane "17.2/gpu1"
  job: number;
  number: number;
  lane: string;
  step: string;
  run: string;
  outcome: string; // class, or "live"
  start: number;
  end: number | null; // null: live
  expectedEnd: number | null;
}

export interface Bar extends Attempt { row: number; track: number; tracks: number }
export interface LaneRow { name: string; tracks: number }
export interface Chart { lanes: LaneRow[]; bars: Bar[]; begin: number; end: number }

export const attemptNumber = (a: WireAttempt): number => a.attempt ?? a.number ?? 0;
export const attemptClass = (a: WireAttempt): string | null => a.class ?? a.outcome ?? null;

/** An attempt with several GPUs has a bar on the lane of each. */
function pushEach(to: Attempt[], lanes: readonly string[], attempt: Attempt): void {
  lanes.forEach((lane, i) => to.push({ ...attempt, lane, key: i === 0 ? attempt.key : `${attempt.key}/${lane}` }));
}

/** Of every job all attempts; what is live knows the newest one better than the history does. */
export function attemptsOf(jobs: Iterable<Job>, history: ReadonlyMap<number, HistoryJob>): Attempt[] {
  const attempts: Attempt[] = [];
  for (const job of jobs) {
    const base = { job: job.id, step: job.step, run: job.run };
    for (const old of history.get(job.id)?.attempts ?? []) {
      const start = parseTime(old.started_at);
      const n = attemptNumber(old);
      if (n === job.attempt || start === null || !old.lane) continue;
      pushEach(attempts, old.lanes?.length ? old.lanes : [old.lane], {
        ...base, key: `${job.id}.${n}`, number: n, lane: old.lane, outcome: attemptClass(old) ?? "unknown",
        start, end: parseTime(old.ended_at) ?? start, expectedEnd: null,
      });
    }
    const start = parseTime(job.started_at);
    if (job.attempt === 0 || start === null || !job.lane) continue;
    const end = isLive(job.state) ? null : (parseTime(job.ended_at) ?? start + (job.duration_s ?? 0) * 1000);
    pushEach(attempts, job.lanes?.length ? job.lanes : [job.lane], {
      ...base, key: `${job.id}.${job.attempt}`, number: job.attempt, lane: job.lane,
      outcome: end === null ? "live" : (job.class ?? "unknown"),
      start, end, expectedEnd: end === null ? parseTime(job.expected_end_at) : null,
    });
  }
  return attempts;
}

const kSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];

/** Milliseconds between two ticks, so that at most `most` fit into `span`. */
export function tickStep(span: number, most: number): number {
  const step = kSteps.find((s) => (span / 1000) / s <= Math.max(1, most));
  return (step ?? 31536000) * 1000;
}

/** Ticks at whole steps of local time: `offset` is what local time is ahead of UTC, in ms. */
export function ticks(begin: number, end: number, most: number, offset: number): number[] {
  const step = tickStep(end - begin, most);
  const first = Math.ceil((begin + offset) / step) * step - offset;
  const found: number[] = [];
  for (let at = first; at <= end; at += step) found.push(at);
  return found;
}

/** Puts attempts that overlap on one lane into tracks: first fit by start. */
function place(attempts: Attempt[], row: number, now: number): { bars: Bar[]; tracks: number } {
  const ends: number[] = [];
  const bars = attempts.sort((a, b) => a.start - b.start || a.job - b.job).map((attempt) => {
    const end = Math.max(attempt.end ?? now, attempt.start);
    let track = ends.findIndex((busyUntil) => busyUntil <= attempt.start);
    if (track < 0) track = ends.length;
    ends[track] = end;
    return { ...attempt, row, track, tracks: 1 };
  });
  return { bars: bars.map((bar) => ({ ...bar, tracks: ends.length })), tracks: ends.length };
}

/** `lanes`: names to show even when empty.  `since`: the begin to show, null for all. */
export function layOut(attempts: readonly Attempt[], lanes: readonly string[], now: number, since: number | null): Chart | null {
  const shown = attempts.filter((a) => since === null || (a.end ?? now) >= since);
  if (shown.length === 0) return null;
  const begin = Math.max(since ?? -Infinity, shown.reduce((least, a) => Math.min(least, a.start), Infinity));
  let last = begin + 1000;
  for (const a of shown) last = Math.max(last, a.end ?? Math.max(now, a.expectedEnd ?? 0));
  const hasLive = shown.some((a) => a.end === null);
  const step = tickStep(last - begin, 24);
  const end = hasLive ? begin + Math.ceil((last - begin) / step + 0.25) * step : last + (last - begin) * 0.01;
  const names = [...new Set([...lanes, ...shown.map((a) => a.lane)])].sort(compareNatural);
  const byLane = new Map<string, Attempt[]>(names.map((name) => [name, []]));
  for (const a of shown) byLane.get(a.lane)?.push({ ...a, start: Math.max(a.start, begin) });
  const bars: Bar[] = [];
  const rows: LaneRow[] = [];
  names.forEach((name, row) => {
    const placed = place(byLane.get(name) ?? [], row, now);
    for (const bar of placed.bars) bars.push(bar); // as arguments of one call they may be too many
    rows.push({ name, tracks: Math.max(1, placed.tracks) });
  });
  return { lanes: rows, bars, begin, end };
}

/** A bar's x and width in pixels: never narrower than `least`, so that one of no length is seen. */
export function extent(start: number, end: number, chart: { begin: number; end: number }, width: number, least = 2): { x: number; width: number } {
  const scale = width / (chart.end - chart.begin);
  const x = Math.max(0, (start - chart.begin) * scale);
  const wide = Math.max(least, (end - start) * scale);
  return { x: Math.min(x, width - least), width: Math.min(wide, Math.max(least, width - x)) };
}

/** The bar to which an arrow key leads. */
export function neighbour(bars: readonly Bar[], from: Bar, key: string): Bar | null {
  const same = bars.filter((bar) => bar.row === from.row).sort((a, b) => a.start - b.start || a.track - b.track);
  const at = same.findIndex((bar) => bar.key === from.key);
  switch (key) {
    case "ArrowRight": return same[at + 1] ?? null;
    case "ArrowLeft": return same[at - 1] ?? null;
    case "Home": return same[0] ?? null;
    case "End": return same[same.length - 1] ?? null;
    case "ArrowUp": case "ArrowDown": {
      const way = key === "ArrowUp" ? -1 : 1;
      const rows = [...new Set(bars.map((bar) => bar.row))].sort((a, b) => a - b);
      const row = rows[rows.indexOf(from.row) + way];
      const there = bars.filter((bar) => bar.row === row);
      const near = (bar: Bar) => Math.abs(bar.start - from.start);
      return there.length === 0 ? null : there.reduce((best, bar) => (near(bar) < near(best) ? bar : best));
    }
    default: return null;
  }
}
