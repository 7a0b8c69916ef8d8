// Layout of bars on lanes.
import test from "node:test";
import assert from "node:assert/strict";
import { attemptsOf, extent, layOut, neighbour, ticks, tickStep, type Attempt } from "../src/model/gantt";
import { planChart, withLanesLines } from "../src/model/plan_chart";
import type { HistoryJob, Plan } from "../src/model/types";
import { chance, iso, job } from "./jobs";

const attempt = (id: number, lane: string, start: number, end: number | null, more: Partial<Attempt> = {}): Attempt =>
  ({ key: `${id}.1`, job: id, number: 1, lane, step: "train", run: "r", outcome: end === null ? "live" : "ok", start, end, expectedEnd: null, ...more });

test("all attempts, each once; the newest from what is live", () => {
  const running = job(1, { state: "running", attempt: 2, lane: "gpu1", started_at: iso(100), expected_end_at: iso(200) });
  const history = new Map([[1, { ...running, params: {}, last_metrics: {}, needs: [], attempts: [
    { attempt: 1, outcome: "oom-gpu", lane: "gpu0", started_at: iso(10), ended_at: iso(60) },
    { attempt: 2, outcome: null, lane: "gpu1", started_at: iso(100), ended_at: null },
  ] } as HistoryJob]]);
  const found = attemptsOf([running, job(2)], history);
  assert.deepEqual(found.map((a) => [a.key, a.outcome, a.lane, a.end]), [["1.1", "oom-gpu", "gpu0", 60_000], ["1.2", "live", "gpu1", null]]);
  assert.equal(found[1]?.expectedEnd, 200_000);
});

test("attempts as show has them do as well", () => {
  const one = job(1, { state: "queued", attempt: 1 });
  const history = new Map([[1, { ...one, attempts: [{ number: 0, class: "lost", lane: "gpu0", started_at: iso(1), ended_at: null }] } as unknown as HistoryJob]]);
  assert.deepEqual(attemptsOf([one], history).map((a) => [a.outcome, a.start, a.end]), [["lost", 1000, 1000]]);
});

test("as many attempts as a page holds are laid out", () => {
  const many = Array.from({ length: 200_000 }, (_, i) => attempt(i, "gpu0", i * 10, i * 10 + 5));
  assert.equal(layOut(many, [], 3_000_000, null)?.bars.length, many.length);
});

test("nothing started: nothing to draw", () => {
  assert.equal(layOut([], ["gpu0"], 5, null), null);
  assert.equal(layOut([attempt(1, "gpu0", 0, 10)], [], 1000, 500), null, "nor in a span where nothing ran");
});

test("what overlaps on a lane gets tracks, and no two bars of a track overlap", () => {
  for (let seed = 1; seed <= 100; seed += 1) {
    const next = chance(seed);
    const attempts = Array.from({ length: 40 }, (_, i) => {
      const start = next(1000);
      return attempt(i + 1, `gpu${next(4)}`, start, next(8) === 0 ? null : start + next(120));
    });
    const chart = layOut(attempts, [], 1000, null) ?? assert.fail();
    assert.equal(chart.bars.length, attempts.length);
    const ends = new Map<string, number>();
    for (const bar of [...chart.bars].sort((a, b) => a.start - b.start || a.job - b.job)) {
      const place = `${bar.row}/${bar.track}`;
      assert.ok((ends.get(place) ?? -1) <= bar.start, `seed ${seed}`);
      assert.ok(bar.track < bar.tracks && bar.tracks === chart.lanes[bar.row]?.tracks);
      ends.set(place, bar.end ?? 1000);
    }
    for (const bar of chart.bars) {
      const at = extent(bar.start, bar.end ?? 1000, chart, 800);
      assert.ok(at.x >= 0 && at.width >= 2 && at.x + at.width <= 800.001, `seed ${seed}`);
    }
  }
});

test("an attempt of no length is seen", () => {
  const chart = layOut([attempt(1, "gpu0", 500, 500)], [], 500, null) ?? assert.fail();
  assert.ok(chart.end > chart.begin);
  assert.ok(extent(500, 500, chart, 300).width >= 2);
});

test("with live bars the right edge moves in steps, and holds now and the expected ends", () => {
  const list = [attempt(1, "gpu0", 0, 60_000), attempt(2, "gpu1", 10_000, null, { expectedEnd: 300_000 })];
  const at = (now: number) => layOut(list, [], now, null) ?? assert.fail();
  assert.ok(at(100_000).end > 300_000);
  assert.equal(at(100_000).end, at(101_000).end);
  assert.ok(at(400_000).end > 400_000);
  let edges = 0;
  for (let now = 300_000, last = 0; now < 600_000; now += 1000) {
    const { end } = at(now);
    assert.ok(end > now);
    if (end !== last) edges += 1;
    last = end;
  }
  assert.ok(edges < 60, `${edges} edges in 300 s`);
});

test("lanes stand in natural order, empty ones too", () => {
  const chart = layOut([attempt(1, "gpu10", 0, 5)], ["gpu2", "gpu1"], 5, null) ?? assert.fail();
  assert.deepEqual(chart.lanes.map((lane) => lane.name), ["gpu1", "gpu2", "gpu10"]);
});

test("a span cuts off what was before it", () => {
  const chart = layOut([attempt(1, "gpu0", 0, 1000), attempt(2, "gpu0", 1000, 2000)], [], 2000, 500) ?? assert.fail();
  assert.equal(chart.begin, 500);
  assert.ok(chart.bars.every((bar) => bar.start >= 500));
});

test("ticks are whole steps of local time, and not too many", () => {
  const next = chance(3);
  for (let i = 0; i < 500; i += 1) {
    const begin = 1_700_000_000_000 + next(1e9);
    const end = begin + 1000 + next(2e9);
    const offset = (next(27) - 13) * 1_800_000;
    const most = 2 + next(20);
    const found = ticks(begin, end, most, offset);
    const step = tickStep(end - begin, most);
    assert.ok(found.length <= most + 1);
    for (const at of found) assert.ok(at >= begin && at <= end && (at + offset) % step === 0);
  }
});

test("arrows go along a lane and to the lane beside", () => {
  const chart = layOut([attempt(1, "gpu0", 0, 10), attempt(2, "gpu0", 10, 20), attempt(3, "gpu2", 12, 30)], ["gpu1"], 30, null) ?? assert.fail();
  const bar = (id: number) => chart.bars.find((b) => b.job === id) ?? assert.fail();
  const to = (id: number, key: string) => neighbour(chart.bars, bar(id), key)?.job ?? null;
  assert.equal(to(1, "ArrowRight"), 2);
  assert.equal(to(2, "ArrowRight"), null);
  assert.equal(to(2, "ArrowLeft"), 1);
  assert.equal(to(2, "ArrowDown"), 3, "over a lane without bars");
  assert.equal(to(3, "ArrowUp"), 2);
  assert.equal(to(1, "ArrowUp"), null);
  assert.equal(to(2, "Home"), 1);
  assert.equal(to(1, "x"), null);
});

test("a plan as bars; equal totals are one line", () => {
  const plan: Plan = {
    sweeps: ["s"], at: iso(1000), end_at: iso(1100), total_s: 100, lower_bound_s: 90, bound_by: { kind: "lanes", words: "" }, idle_share: 0, lane_kind: "GPU", lane_count: 2,
    with_lanes: [{ lanes: 1, total_s: 200 }, { lanes: 3, total_s: 60 }, { lanes: 4, total_s: 60 }, { lanes: 8, total_s: null }], with_expect_s: null, lanes: ["gpu0", "gpu1"],
    jobs: [{ id: 1, sweep: "s", run: "a", step: "train", lanes: ["gpu0"], start_s: 0, end_s: 100, live: true }],
    others: [{ lanes: ["gpu1"], start_s: 5, end_s: null }, { lanes: ["gpu1"], start_s: 200, end_s: 300 }], durations: [], held: 0, stuck: [], notes: [],
  };
  const { chart, jobs } = planChart(plan);
  assert.equal(chart?.bars.length, 2);
  assert.equal(jobs.size, 1);
  assert.deepEqual(withLanesLines(plan), [{ lanes: "1 GPU", total: "3m20s" }, { lanes: "3 to 4 GPUs", total: "1m00s" }, { lanes: "8 GPUs", total: "not all jobs could start" }]);
  assert.equal(planChart({ ...plan, jobs: [], others: [] }).chart, null);
});
