// Who is on which lane.
import test from "node:test";
import assert from "node:assert/strict";
import { laneLooks } from "../src/model/lanes";
import type { AllState } from "../src/model/store";
import type { Job, Lane, SweepSummary } from "../src/model/types";
import { job } from "./jobs";

const on = (id: number, sweep: number, lane: string): Job => ({ ...job(id), state: "running", sweep_id: sweep, sweep: `s${sweep}`, lane });
const sweepOf = (id: number, lanes: number): SweepSummary => ({ id, name: `s${id}`, lanes, counts: { running: 1 } });
function looks(lanes: Partial<Lane>[], sweeps: SweepSummary[], live: Job[]) {
  const jobs = new Map(live.map((one) => [one.id, one]));
  const all = { lanes, sweeps, jobs, gpus: [], counts: {}, cpu_lanes: 0, trouble: "" } as unknown as AllState;
  return laneLooks(all, live).map((row) => [row.title, row.job]);
}

test("own lanes of two sweeps are told apart", () => {
  assert.deepEqual(looks([], [sweepOf(1, 1), sweepOf(2, 2)], [on(7, 1, "lane0"), on(8, 2, "lane0")]),
    [["s1:lane0", 7], ["s2:lane0", 8], ["s2:lane1", null]]);
});

test("those of one sweep have short names", () => {
  assert.deepEqual(looks([], [sweepOf(1, 2)], [on(7, 1, "lane1")]), [["lane0", null], ["lane1", 7]]);
});

test("a lane that was told of has one row, whichever sweep is on it, and one that was not has a row, too", () => {
  const gpu = { name: "gpu0", job: null };
  assert.deepEqual(looks([gpu], [sweepOf(1, 0)], [on(7, 1, "gpu0"), on(8, 2, "cpu3")]), [["cpu3", 8], ["gpu0", 7]]);
});
