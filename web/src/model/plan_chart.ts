// A plan as bars on lanes, and its totals with other numbers of lanes in few lines.
import { duration } from "./format";
import { layOut, type Attempt, type Chart } from "./gantt";
import type { Plan, PlanJob } from "./types";
import { parseTime } from "./format";

export function planChart(plan: Plan): { chart: Chart | null; jobs: Map<string, PlanJob> } {
  const begin = parseTime(plan.at) ?? 0;
  const total = plan.total_s ?? Math.max(0, ...plan.jobs.map((job) => job.end_s));
  const jobs = new Map<string, PlanJob>();
  const attempts: Attempt[] = [];
  const add = (key: string, lane: string, step: string, run: string, start: number, end: number) => attempts.push({
    key, job: 0, number: 1, lane, step, run, outcome: "plan", start: begin + start * 1000, end: begin + end * 1000, expectedEnd: null,
  });
  plan.jobs.forEach((job, i) => job.lanes.forEach((lane) => {
    const key = `j${i}.${lane}`;
    jobs.set(key, job);
    add(key, lane, job.step, job.run, job.start_s, job.end_s);
  }));
  plan.others.forEach((other, i) => other.lanes.forEach((lane) => {
    if (other.start_s < total) add(`o${i}.${lane}`, lane, "", "", other.start_s, Math.min(total, other.end_s ?? total));
  }));
  return { chart: layOut(attempts, [], begin, null), jobs };
}

/** "9 to 16 lanes: 4h" for numbers that make no difference. */
export function withLanesLines(plan: Plan): { lanes: string; total: string }[] {
  const kind = plan.lane_kind || "lane";
  const lines: { first: number; last: number; total: string }[] = [];
  for (const one of plan.with_lanes) {
    const total = one.total_s === null ? "not all jobs could start" : duration(one.total_s);
    const before = lines[lines.length - 1];
    if (before && before.total === total) before.last = one.lanes;
    else lines.push({ first: one.lanes, last: one.lanes, total });
  }
  return lines.map(({ first, last, total }) => ({
    lanes: first === last ? `${first} ${kind}${first === 1 ? "" : "s"}` : `${first} to ${last} ${kind}s`, total,
  }));
}
