// Order, filter, columns, rows, groups.
import test from "node:test";
import assert from "node:assert/strict";
import { chosenColumns, columnsOf, metricKeys, paramNames, paramsOf } from "../src/model/columns";
import { parseFilter } from "../src/model/filter";
import { aggregate, groupRows } from "../src/model/groups";
import { asNumber, compareNatural, sortBy } from "../src/model/order";
import { buildRows, cellText, cellValue, rowSeconds } from "../src/model/rows";
import { visibleRange } from "../src/model/virtual";
import type { HistoryJob, Job } from "../src/model/types";
import { chance, iso, job, sweep } from "./jobs";

test("natural order: numbers by value, wherever they stand", () => {
  assert.deepEqual(["run-10", "run-9", "Run-2"].sort(compareNatural), ["Run-2", "run-9", "run-10"]);
  assert.deepEqual(["1e-3", "0.1", "10", "-2"].sort(compareNatural), ["-2", "1e-3", "0.1", "10"]);
  assert.deepEqual(["b", "10", "a", "9"].sort(compareNatural), ["9", "10", "a", "b"]);
  assert.deepEqual(["gpu10", "gpu2", "cpu1"].sort(compareNatural), ["cpu1", "gpu2", "gpu10"]);
});

test("natural order is an order", () => {
  const next = chance(5);
  const texts = Array.from({ length: 60 }, () => Array.from({ length: 1 + next(5) }, () => "a1b02-.e"[next(8)]).join(""));
  for (const a of texts) {
    for (const b of texts) {
      assert.equal(Math.sign(compareNatural(a, b)), -Math.sign(compareNatural(b, a)) || 0, `${a} ${b}`);
      for (const c of texts) if (compareNatural(a, b) <= 0 && compareNatural(b, c) <= 0) assert.ok(compareNatural(a, c) <= 0, `${a} ${b} ${c}`);
    }
  }
});

test("what is missing is last, rising and falling; equal ones keep their order", () => {
  const items = [{ v: "" }, { v: 2 }, { v: null }, { v: 10 }, { v: undefined }];
  assert.deepEqual(sortBy(items, (i) => i.v).map((i) => i.v), [2, 10, "", null, undefined]);
  assert.deepEqual(sortBy(items, (i) => i.v, true).map((i) => i.v), [10, 2, "", null, undefined]);
});

test("what is a number", () => {
  for (const text of ["1", "-0.5", ".5", "1e-4", "+2"]) assert.notEqual(asNumber(text), null, text);
  for (const text of ["", "1x", "0x10", "1,5", "Infinity", "nan", "-"]) assert.equal(asNumber(text), null, text);
});

const rowOf = (cells: Record<string, unknown>) => ({
  cells: (column: string) => cells[column],
  all: () => Object.values(cells).map(String),
});
const matches = (filter: string, cells: Record<string, unknown>) => {
  const row = rowOf(cells);
  return parseFilter(filter, new Set(Object.keys(cells))).test(row.cells, row.all);
};

test("filter: words, columns, numbers, negation, quotes", () => {
  const row = { run: "03-edm", lr: "0.1", loss: 0.4, state: "failed", reason: "out of memory" };
  for (const yes of ["", "EDM", "state=fail", "lr=0.1", "lr=1e-1", "loss<0.5", "loss>=0.4", "!done", "!state=done", "edm lr=0.1", '"of memory"',
    'reason="of mem"', "run=^03", "lr=0.[12]", "nothing=here|edm"]) {
    assert.equal(matches(yes, row), true, yes);
  }
  for (const no of ["flow", "lr=0.15", "loss<0.4", "!edm", "!state=failed", "edm flow", "reason<3"]) assert.equal(matches(no, row), false, no);
});

test("filter: a bad pattern says so and filters nothing", () => {
  for (const bad of ["(", "lr=[", "edm *", "loss<x"]) {
    const filter = parseFilter(bad, new Set(["lr", "loss"]));
    assert.ok(filter.error, bad);
    assert.equal(filter.test(() => undefined, () => []), true);
  }
  assert.equal(parseFilter("a+b", new Set()).error, null);
});

test("filter: a comparison with a column that is not there says so, and which is near", () => {
  const columns = new Set(["loss", "lr"]);
  assert.equal(parseFilter("los<0.5", columns).error, "no column los; did you mean loss?");
  assert.equal(parseFilter("accuracy>=1", columns).error, "no column accuracy");
  assert.equal(parseFilter("x=1", columns).error, null);
});

const history = (one: Job, more: Partial<HistoryJob> = {}): HistoryJob => ({ ...one, params: {}, last_metrics: {}, needs: [], attempts: [], ...more });

test("columns: steps, what differs, metrics; names that collide are told apart", () => {
  const s = sweep({ steps: ["prep", "train", "eval"], columns: ["lr"], rows: [["1"], ["2"]], runs: ["a", "b"] });
  const told = [
    history(job(1, { run: "a", step: "train" }), { params: { lr: 1, data: "x" }, last_metrics: { loss: 1, time: 2, lr: 5 } }),
    history(job(2, { run: "b", step: "eval" }), { params: { lr: 2, data: "x" }, last_metrics: { loss: 2 } }),
    history(job(3, { run: "", step: "prep" }), { last_metrics: { files: 2 } }),
  ];
  const params = paramsOf(s, told);
  const names = paramNames(params);
  assert.deepEqual(names, { differing: ["lr"], same: ["data"] });
  const set = columnsOf(s, ["train", "eval"], names, metricKeys(s, told), () => true);
  assert.deepEqual(set.standard.map((c) => c.id), ["run", "train", "eval", "time", "lr", "train/loss", "eval/loss", "metric.lr", "reason"]);
  assert.ok(set.all.some((c) => c.id === "data"));
  assert.ok(set.all.some((c) => c.id === "metric.time"), "a counter is there when asked for");
  assert.deepEqual(chosenColumns(set, ["lr"]).map((c) => c.id), ["run", "lr"]);
  assert.equal(chosenColumns(set, ["all"]), set.all);
  assert.equal(chosenColumns(set, ["gone"]), set.standard);
});

test("rows keep their object while nothing of them changes", () => {
  const s = sweep({ steps: ["train", "eval"], runs: ["a", "b"] });
  const jobs = new Map([1, 2].flatMap((i) => [job(i, { run: i === 1 ? "a" : "b", index: i }), job(i + 10, { run: i === 1 ? "a" : "b", index: i, step: "eval" })]).map((j) => [j.id, j]));
  const params = new Map();
  const first = buildRows(s, jobs, params, new Map(), new Map());
  const next = buildRows(s, new Map(jobs).set(1, job(1, { run: "a", index: 1, state: "failed", reason: "exit code 1" })), params, new Map(), first);
  assert.notEqual(next.get("a"), first.get("a"));
  assert.equal(next.get("b"), first.get("b"));
  assert.equal(next.get("a")?.state, "failed");
  assert.deepEqual(next.get("a")?.list.map((j) => j.step), ["train", "eval"]);
});

test("rows: once-steps apart, older versions left out, in the order of the file", () => {
  const rows = buildRows(sweep(), new Map([job(5, { run: "b", index: 1 }), job(6, { run: "a", index: 0 }), job(4, { run: "a", index: 0, replaced: true }), job(1, { run: "", index: null, step: "prep" })].map((j) => [j.id, j])),
    new Map(), new Map(), new Map());
  assert.deepEqual([...rows.keys()], ["once:prep", "a", "b"]);
  assert.equal(rows.get("a")?.list.length, 1);
});

test("time of a run: what ended and what is live by now", () => {
  const rows = buildRows(sweep({ steps: ["train", "eval"] }), new Map([job(1, { run: "a", state: "done", duration_s: 5, attempt: 1 }), job(2, { run: "a", step: "eval", state: "running", attempt: 1, started_at: iso(100) })].map((j) => [j.id, j])),
    new Map(), new Map(), new Map());
  const row = [...rows.values()][0];
  assert.ok(row);
  assert.equal(rowSeconds(row, 107_000), 12);
  assert.equal(rowSeconds(row, 0), 5, "a clock that is behind gives no negative time");
});

test("groups: natural order, aggregates of what is known, none of nothing", () => {
  const s = sweep({ columns: ["lr"], rows: [["10"], ["9"], ["10"]], runs: ["a", "b", "c"] });
  const list = ["a", "b", "c"].map((run, i) => job(i + 1, { run, index: i, state: i === 0 ? "failed" : "done" }));
  const told = new Map(list.map((j, i) => [j.id, history(j, { last_metrics: i === 0 ? {} : { loss: i } })]));
  const rows = buildRows(s, new Map(list.map((j) => [j.id, j])), paramsOf(s, [...told.values()]), told, new Map());
  const set = columnsOf(s, ["train"], { differing: ["lr"], same: [] }, metricKeys(s, [...told.values()]), () => true);
  const column = (id: string) => set.all.find((c) => c.id === id) ?? assert.fail(id);
  const groups = groupRows([...rows.values()], column("lr"), [column("loss")], 0);
  assert.deepEqual(groups.map((g) => [g.value, g.rows.length, g.counts]), [["9", 1, { done: 1 }], ["10", 2, { failed: 1, done: 1 }]]);
  assert.deepEqual(groups[1]?.aggregates.get("loss"), { count: 1, mean: 2, min: 2, max: 2 });
  assert.equal(aggregate(["", null, "x", NaN, Infinity]), null);
  const row = rows.get("a") ?? assert.fail();
  assert.equal(cellValue(row, column("loss"), 0), undefined);
  assert.equal(cellText(row, column("loss"), 0), "");
});

test("the rows in sight are always drawn, and few more", () => {
  const next = chance(11);
  for (let i = 0; i < 2000; i += 1) {
    const count = next(3000);
    const top = next(count * 33 + 100);
    const height = 1 + next(1200);
    const { first, last } = visibleRange(top, height, 33, count);
    assert.ok(first >= 0 && last <= count && first <= last);
    if (count === 0) continue;
    assert.ok(first <= Math.floor(top / 33) || first === count - 1);
    assert.ok(last >= Math.min(count, Math.ceil((top + height) / 33)));
    assert.ok(last - first <= height / 33 + 62);
  }
});
