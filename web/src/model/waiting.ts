// What waits and why, in few lines: jobs of one step that wait for the same reason are one line.
import type { Job } from "./types";

export interface Waiting { sweep: string; sweepId: number; step: string; state: string; reason: string; ids: number[] }

/** Numbers of jobs in a reason differ from job to job; the first of the line is the example. */
const shape = (reason: string): string => reason.replace(/\d+/g, "#");

export function waitingLines(jobs: Iterable<Job>): Waiting[] {
  const lines = new Map<string, Waiting>();
  for (const job of jobs) {
    if (job.state !== "queued" && job.state !== "held") continue;
    const key = [job.sweep_id, job.step, job.state, shape(job.reason)].join("\0");
    const line = lines.get(key);
    if (line) line.ids.push(job.id);
    else lines.set(key, { sweep: job.sweep, sweepId: job.sweep_id, step: job.step, state: job.state, reason: job.reason, ids: [job.id] });
  }
  return [...lines.values()].sort((a, b) => Number(b.state === "held") - Number(a.state === "held") || b.sweepId - a.sweepId);
}
