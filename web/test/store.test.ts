// Events to state.
import test from "node:test";
import assert from "node:assert/strict";
import { kEmpty, reduce, reduceAll, type LiveEvent, type State } from "../src/model/store";
import type { StateName } from "../src/model/types";
import { chance, event, iso, job, sweep } from "./jobs";

const all = (jobs: object[], more = {}) => event("all.snapshot", { jobs, sweeps: [], counts: {}, gpus: [], lanes: [], cpu_lanes: 2, trouble: "", ...more });
const snapshot = (jobs: object[], more = {}) => event("sweep.snapshot", { sweep: sweep(more), jobs, lanes: [] });
const ids = (state: State) => [...(state.all?.jobs.keys() ?? [])].sort((a, b) => a - b);

test("changes before a snapshot change nothing", () => {
  for (const early of [event("all.changes", { jobs: [job(1)], gone: [] }), event("all.devices"), event("sweep.job", { job: job(1) }),
    event("sweep.end"), event("sweep.remaining", { remaining_s: 1 }), event("log.more", { text: "x" })]) {
    assert.equal(reduce(kEmpty, early), kEmpty);
  }
});

test("an event of a newer server changes nothing", () => {
  assert.equal(reduce(kEmpty, event("all.weather", { sun: true })), kEmpty);
});

test("jobs go and come again", () => {
  let state = reduce(kEmpty, all([job(1), job(2)]));
  state = reduce(state, event("all.changes", { jobs: [], gone: [1, 99] }));
  assert.deepEqual(ids(state), [2]);
  state = reduce(state, event("all.changes", { jobs: [job(1, { state: "running" })], gone: [2] }));
  assert.deepEqual(ids(state), [1]);
  assert.equal(state.all?.jobs.get(1)?.state, "running");
});

test("what is sent twice after a resume keeps every object", () => {
  const first = reduceAll(kEmpty, [all([job(1), job(2)]), snapshot([job(1), job(2)])]);
  const again = reduceAll(first, [all([job(1), job(2)]), snapshot([job(1), job(2)]), event("sweep.job", { job: job(2) })]);
  assert.equal(again.all?.jobs, first.all?.jobs);
  assert.equal(again.sweep?.jobs, first.sweep?.jobs);
  assert.equal(again.sweep?.sweep, first.sweep?.sweep);
  const changed = reduce(again, event("sweep.job", { job: job(2, { state: "done" }) }));
  assert.notEqual(changed.sweep?.jobs, first.sweep?.jobs);
  assert.equal(changed.sweep?.jobs.get(1), first.sweep?.jobs.get(1));
});

test("the rows of a sweep keep their object while its counts change", () => {
  const first = reduce(kEmpty, snapshot([], { rows: [["1"]], columns: ["lr"], counts: { queued: 2 } }));
  const next = reduce(first, event("sweep.sweep", { sweep: sweep({ rows: [["1"]], columns: ["lr"], counts: { queued: 1, done: 1 } }) }));
  assert.equal(next.sweep?.sweep.rows, first.sweep?.sweep.rows);
  assert.deepEqual(next.sweep?.sweep.counts, { queued: 1, done: 1 });
});

test("jobs of another sweep do not get in", () => {
  const state = reduceAll(kEmpty, [snapshot([job(1)]), event("sweep.job", { job: job(9, { sweep_id: 4 }) }), event("sweep.sweep", { sweep: sweep({ id: 4, name: "other" }) })]);
  assert.deepEqual([...(state.sweep?.jobs.keys() ?? [])], [1]);
  assert.equal(state.sweep?.sweep.name, "s");
});

test("a batch comes to what its events come to one by one", () => {
  const states: StateName[] = ["queued", "running", "done", "failed"];
  for (let seed = 1; seed <= 200; seed += 1) {
    const next = chance(seed);
    const events: LiveEvent[] = [];
    for (let i = 0; i < 60; i += 1) {
      const one = () => job(1 + next(5), { state: states[next(4)] as StateName, attempt: next(3), sweep_id: next(8) === 0 ? 4 : 3 });
      const kind = next(10);
      if (kind === 0) events.push(snapshot([one(), job(7)]));
      else if (kind === 1) events.push(all([job(1), job(2)]));
      else if (kind === 2) events.push(event("all.changes", { jobs: [one()], gone: [1 + next(5)] }));
      else if (kind === 3) events.push(event("sweep.end"));
      else if (kind === 4) events.push(event("gap", { topic: "all", why: "w" }));
      else events.push(event("sweep.job", { job: one() }));
    }
    assert.deepEqual(reduceAll(kEmpty, events), events.reduce(reduce, kEmpty), `seed ${seed}`);
  }
});

test("a gap lasts until a snapshot of its topic", () => {
  let state = reduceAll(kEmpty, [event("gap", { topic: "all", why: "the coordinator has ended" }), event("gap", { topic: "sweep", why: "gone" })]);
  assert.equal(state.gaps.length, 2);
  state = reduce(state, event("gap", { topic: "all", why: "still" }));
  assert.deepEqual(state.gaps.find((gap) => gap.topic === "all")?.why, "still");
  state = reduce(state, all([]));
  assert.deepEqual(state.gaps.map((gap) => gap.topic), ["sweep"]);
  assert.equal(reduce(state, snapshot([])).gaps.length, 0);
});

test("ends of attempts are counted once", () => {
  let state = reduce(kEmpty, snapshot([job(1, { state: "running", attempt: 1 })]));
  const done = event("sweep.job", { job: job(1, { state: "done", attempt: 1, ended_at: iso(5) }) });
  state = reduceAll(state, [done, done]);
  assert.equal(state.sweep?.attemptsEnded, 1);
  state = reduceAll(state, [event("sweep.job", { job: job(1, { state: "running", attempt: 2, ended_at: null }) })]);
  assert.equal(state.sweep?.attemptsEnded, 2);
});

test("the expected end is an instant; an over sweep has none, and may live again", () => {
  let state = reduce(kEmpty, event("sweep.snapshot", { sweep: sweep({ remaining_s: 10 }), jobs: [job(1)], lanes: [] }, 5000));
  assert.equal(state.sweep?.endAt, 15000);
  state = reduce(state, event("sweep.remaining", { remaining_s: null }, 6000));
  assert.equal(state.sweep?.endAt, null);
  state = reduce(state, event("sweep.end"));
  assert.equal(state.sweep?.isOver, true);
  state = reduceAll(state, [event("sweep.job", { job: job(1, { state: "running" }) })]);
  assert.equal(state.sweep?.isOver, false);
});

test("a log begins anew with an attempt, and does not grow for ever", () => {
  let state = reduceAll(kEmpty, [event("log.reset", { job: 1, attempt: 1, text: "a\n" }), event("log.more", { text: "b\n" })]);
  assert.equal(state.log?.text, "a\nb\n");
  for (let i = 0; i < 100; i += 1) state = reduce(state, event("log.more", { text: `${"x".repeat(10_000)}\n` }));
  assert.ok((state.log?.text.length ?? 0) < 400_000);
  state = reduce(state, event("log.reset", { job: 1, attempt: 2, text: "" }));
  assert.deepEqual(state.log, { job: 1, attempt: 2, text: "" });
});

test("a thousand runs, ten thousand events", (t) => {
  let state = reduce(kEmpty, snapshot(Array.from({ length: 1000 }, (_, i) => job(i + 1))));
  const begin = performance.now();
  for (let i = 0; i < 100; i += 1) {
    state = reduceAll(state, Array.from({ length: 100 }, (_, k) => event("sweep.job", { job: job(1 + ((i * 100 + k) % 1000), { attempt: i }) })));
  }
  t.diagnostic(`${((performance.now() - begin) / 100).toFixed(2)} ms a batch of 100`);
  assert.equal(state.sweep?.jobs.size, 1000);
});
