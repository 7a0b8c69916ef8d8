// The eleven states: their order, what tone they have, and what may be done in each.
import type { Counts, StateName } from "./types";

export type Tone = "good" | "bad" | "busy" | "calm";
export type Action = "cancel" | "hold" | "release" | "retry";

/** The order in which counts are told: what needs a look first. */
export const kStates: StateName[] = [
  "failed", "timeout", "lost", "running", "starting", "stopping", "held", "queued", "done", "cancelled", "skipped",
];

export function toneOf(state: StateName): Tone {
  switch (state) {
    case "done": return "good";
    case "failed": case "timeout": case "lost": return "bad";
    case "starting": case "running": case "stopping": return "busy";
    case "queued": case "held": case "cancelled": case "skipped": return "calm";
    default: return "calm"; // a state of a newer version
  }
}

export const isLive = (state: StateName): boolean => toneOf(state) === "busy";
export const isWaiting = (state: StateName): boolean => state === "queued" || state === "held";
export const isEnded = (state: StateName): boolean => !isLive(state) && !isWaiting(state);

/** Whether `action` makes sense for a job in `state`; the coordinator has the last word. */
export function allows(action: Action, state: StateName): boolean {
  switch (action) {
    case "cancel": return !isEnded(state);
    case "hold": return state === "queued";
    case "release": return state === "held";
    case "retry": return isEnded(state);
  }
}

export function total(counts: Counts): number {
  return Object.values(counts).reduce((sum: number, n) => sum + (n ?? 0), 0);
}

export function ended(counts: Counts): number {
  return kStates.filter(isEnded).reduce((sum, state) => sum + (counts[state] ?? 0), 0);
}

/** "1 failed, 2 running, 10 done" */
export function countsText(counts: Counts): string {
  return kStates.filter((s) => counts[s]).map((s) => `${counts[s]} ${s}`).join(", ") || "no jobs";
}

export function countStates(states: Iterable<StateName>): Counts {
  const counts: Counts = {};
  for (const state of states) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}

/** The state that stands for several jobs of a run: the one that asks for a look most. */
export function worst(states: StateName[]): StateName {
  return kStates.find((s) => states.includes(s)) ?? states[0] ?? "queued";
}

/** "train" of 03-lr=0.1/train, "prepare (once)" for a step of the whole sweep. */
export function jobName(job: { run: string; step: string }): string {
  return job.run === "" ? `${job.step} (once)` : `${job.run}/${job.step}`;
}
