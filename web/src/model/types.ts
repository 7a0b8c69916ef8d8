// What comes over the wire: docs/schema/*.json and the contract of `pergpu serve`.  Instants are
// RFC 3339 texts or null.  Fields may be added under schema 1, so nothing here counts on their number.

export type StateName =
  | "queued" | "held" | "starting" | "running" | "stopping"
  | "done" | "failed" | "timeout" | "cancelled" | "skipped" | "lost";

export type Counts = Partial<Record<StateName, number>>;

export interface Job {
  id: number;
  sweep: string;
  sweep_id: number;
  run: string; // "": the job of a once-step
  index: number | null;
  step: string;
  state: StateName;
  reason: string;
  class: string | null;
  attempt: number; // 0: never started
  exit: number | null;
  signal: number | null;
  gpus: string[];
  lane: string | null; // of several the first
  lanes?: string[]; // all; an older coordinator does not tell
  queued_at: string | null;
  started_at: string | null;
  ended_at: string | null;
  duration_s: number | null;
  expected_s: number | null;
  expected_end_at: string | null;
  out: string;
  log: string;
  metrics: string;
  status: string;
  progress: string;
  retries_left: number;
  replaced: boolean;
  warnings: string[];
  cores: number | null;
  resident_bytes: number | null;
  gpu_busy_percent: number | null;
  gpu_memory_bytes: number | null;
}

export interface Sweep {
  id: number;
  name: string;
  root: string;
  steps: string[];
  columns: string[];
  rows: string[][];
  runs: string[];
  counts: Counts;
  lanes: number;
  remaining_s: number | null;
  warnings: string[];
}

export interface SweepSummary {
  id: number;
  name: string;
  counts: Counts;
  lanes: number;
}

export interface Lane {
  name: string;
  uuid: string;
  state: string;
  why: string;
  job: number | null;
  idle_s: number | null;
  idle_now_s: number | null;
}

export interface Holder {
  pid: number;
  user: string;
  command: string;
  memory_bytes: number | null;
  job: number | null;
}

export interface Gpu {
  uuid: string;
  index: number;
  instance: number | null;
  name: string;
  pci: string;
  state: string;
  why: string;
  lanes: string[];
  memory_bytes: number;
  used_bytes: number;
  holders: Holder[];
  busy_percent: number | null;
  power_w: number | null;
  temperature_c: number | null;
  clock_mhz: number | null;
  throttle: string[];
}

export interface Devices {
  gpus: Gpu[];
  lanes: Lane[];
  cpu_lanes: number;
  trouble: string;
}

export type Params = Record<string, unknown>;

/** An attempt as `export` ("outcome") or `show` ("class") has it. */
export interface WireAttempt {
  attempt?: number;
  number?: number;
  class?: string | null;
  outcome?: string | null;
  state?: StateName;
  lane?: string | null;
  lanes?: string[];
  gpus?: string[];
  started_at?: string | null;
  ended_at?: string | null;
  duration_s?: number | null;
  exit?: number | null;
  signal?: number | null;
  reason?: string | null;
  cpu_s?: number | null;
  peak_memory_bytes?: number | null;
}

export interface HistoryJob extends Job {
  params: Params;
  last_metrics: Record<string, unknown>;
  needs: string[];
  attempts: WireAttempt[];
}

export interface Usage {
  readings: number;
  now: Record<string, number> | null;
  mean: Record<string, number> | null;
  most: Record<string, number> | null;
  throttle: string[];
  read_bytes?: number;
  written_bytes?: number;
}

export interface ShownJob extends Job {
  params: Params;
  command: string | string[] | null;
  cwd: string;
  file: string;
  git_commit: string;
  git_dirty: boolean;
  limits: Record<string, string | number>;
  limits_held: Record<string, string>;
  needs: string[];
  last_attempt?: { number: number; pid: number; cpus: number; cpu_list: number[]; peak_memory_bytes: number; cpu_s: number };
  replaces?: number;
  replaced_by?: number;
  why: string;
  attempts: WireAttempt[];
  argv?: string[] | null;
  usage?: Usage | null;
  learnt?: { jobs: number; duration_s: number; memory_bytes: number | null; gpu_memory_bytes: number | null };
  notify?: string[];
}

export type Bucket = { at: string; readings?: number; throttle?: string[] } & Record<string, unknown>;
export interface UsageSeries { step_s: number; buckets: Bucket[] }
export interface MetricSeries { names: string[]; points: Record<string, number | null>[] }

export interface PlanJob {
  id: number | null;
  sweep: string;
  run: string;
  step: string;
  lanes: string[];
  start_s: number;
  end_s: number;
  live: boolean;
}

export interface Plan {
  sweeps: string[];
  at: string;
  end_at: string | null;
  total_s: number | null;
  lower_bound_s: number;
  bound_by: { kind: string; words: string };
  idle_share: number | null;
  lane_kind: string;
  lane_count: number;
  with_lanes: { lanes: number; total_s: number | null }[];
  with_expect_s: number | null;
  lanes: string[];
  jobs: PlanJob[];
  others: { lanes: string[]; start_s: number; end_s: number | null }[];
  durations: { sweep: string; step: string; jobs: number; mean_s: number; source: string }[];
  held: number;
  stuck: { sweep: string; step: string; jobs: number; why: string }[];
  notes: string[];
}

export interface Missing { missing: { sweep: string; step: string; jobs: number }[] }

export interface Hello {
  schema: number;
  version: string;
  host: string;
  home: string;
  readonly: boolean;
  utc_offset_s?: number;
}

export interface Changed {
  changed: number[];
  left?: { id: number; state: StateName; replaced: boolean }[];
}
