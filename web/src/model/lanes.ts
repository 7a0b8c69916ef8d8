// Rows of the table of lanes, as `pergpu top` has them: lanes as told, the own lanes of open sweeps,
// and those that a live job names and nobody told of.  Pure.  A sweep's own lanes have names that
// another sweep's may have, too.
import { compareNatural } from "./order";
import { ended, total } from "./states";
import type { AllState } from "./store";
import type { Job, Lane } from "./types";

export interface LaneLook { key: string; title: string; lane: Lane; job: number | null }

const kOwn = "lane";
const kMostOwn = 256; // more free lanes nobody looks through

const keyOf = (sweep: number, name: string): string => `${name.startsWith(kOwn) ? sweep : 0} ${name}`;
const untold = (name: string): Lane => ({ name, uuid: "", state: "free", why: "", job: null, idle_s: null, idle_now_s: null });

export function laneLooks(all: AllState, live: readonly Job[]): LaneLook[] {
  const rows = new Map<string, LaneLook>();
  for (const lane of all.lanes) {
    const key = `0 ${lane.name}`;
    rows.set(key, { key, title: lane.name, lane, job: lane.job });
  }
  const own = all.sweeps.filter((sweep) => sweep.lanes > 0 && total(sweep.counts) > ended(sweep.counts));
  const titleOf = (sweep: string, name: string): string => (own.length > 1 && name.startsWith(kOwn) ? `${sweep}:${name}` : name);
  for (const sweep of own) {
    for (let slot = 0; slot < Math.min(kMostOwn, sweep.lanes); slot += 1) {
      const name = `${kOwn}${slot}`;
      const key = keyOf(sweep.id, name);
      rows.set(key, { key, title: titleOf(sweep.name, name), lane: untold(name), job: null });
    }
  }
  for (const job of live) {
    if (!job.lane) continue;
    const key = keyOf(job.sweep_id, job.lane);
    const row = rows.get(key) ?? { key, title: titleOf(job.sweep, job.lane), lane: untold(job.lane), job: null };
    rows.set(key, { ...row, job: job.id });
  }
  return [...rows.values()].sort((a, b) => compareNatural(a.title, b.title));
}
