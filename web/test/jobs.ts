// Jobs, sweeps and events for tests, and numbers by chance that are the same each time.
import type { Job, Sweep } from "../src/model/types";
import type { LiveEvent } from "../src/model/store";

export function job(id: number, more: Partial<Job> = {}): Job {
  return {
    id, sweep: "s", sweep_id: 3, run: `${id}-run`, index: id, step: "train", state: "queued", reason: "waits", class: null, attempt: 0,
    exit: null, signal: null, gpus: [], lane: null, queued_at: null, started_at: null, ended_at: null, duration_s: null, expected_s: null,
    expected_end_at: null, out: "", log: "", metrics: "", status: "", progress: "", retries_left: 0, replaced: false, warnings: [],
    cores: null, resident_bytes: null, gpu_busy_percent: null, gpu_memory_bytes: null, ...more,
  };
}

export function sweep(more: Partial<Sweep> = {}): Sweep {
  return { id: 3, name: "s", root: "/r", steps: ["train"], columns: [], rows: [], runs: [], counts: {}, lanes: 2, remaining_s: null, warnings: [], ...more };
}

export const event = (name: string, data: object = {}, at = 0): LiveEvent => ({ name, data: data as Record<string, unknown>, at });

/** The same sequence for the same seed. */
export function chance(seed: number): (below: number) => number {
  let x = seed;
  return (below) => {
    x = (x * 48271) % 2147483647;
    return x % below;
  };
}

export const iso = (seconds: number): string => new Date(seconds * 1000).toISOString();
