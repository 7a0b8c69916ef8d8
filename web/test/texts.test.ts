// Addresses, texts, numbers, series.
import test from "node:test";
import assert from "node:assert/strict";
import { bytes, duration, number, plural, span, ticking, valueText } from "../src/model/format";
import { formatRoute, joinList, parseRoute, splitList, withQuery, type Route } from "../src/model/route";
import { metricLine, spoken, usageSeries } from "../src/model/series";
import { plainText, shellLine, tailOf, visibleMarks } from "../src/model/text";
import { waitingLines } from "../src/model/waiting";
import type { UsageSeries } from "../src/model/types";
import { chance, iso, job } from "./jobs";

test("addresses: what is written is read again", () => {
  const next = chance(9);
  const letters = "ab=&?#%+ ,\\é\"'<>/-^$|()[]";
  const text = () => Array.from({ length: 1 + next(12) }, () => letters[next(letters.length)]).join("");
  for (let i = 0; i < 1000; i += 1) {
    const view = (["overview", "sweep", "job", "plan", "gpus"] as const)[next(5)] ?? "plan";
    const route: Route = { view, id: view === "sweep" || view === "job" ? 1 + next(1e9) : null, query: { filter: text(), cols: joinList([text(), text()]), sort: `-${text()}` } };
    const read = parseRoute(formatRoute(route));
    assert.deepEqual(read, route);
    assert.equal(formatRoute(read), formatRoute(route));
  }
});

test("addresses: the ones people write", () => {
  assert.deepEqual(parseRoute("#/sweep/3?sort=-loss&filter=lr%3D0.1&group=lr"), { view: "sweep", id: 3, query: { sort: "-loss", filter: "lr=0.1", group: "lr" } });
  for (const home of ["", "#", "#/"]) assert.equal(parseRoute(home).view, "overview");
  for (const bad of ["#/nothing", "#/sweep", "#/sweep/x", "#/sweep/0", "#/job/1/2", "#/plan/3", "#/job/-1"]) assert.equal(parseRoute(bad).view, "unknown", bad);
  assert.equal(formatRoute(withQuery(parseRoute("#/sweep/3?sort=a"), { sort: null, group: "lr" })), "#/sweep/3?group=lr");
});

test("marks that reorder or hide text are made visible, and nothing else is changed", () => {
  const shown = (text: string): unknown => JSON.parse(visibleMarks(JSON.stringify({ [text]: text })));
  const cases: [string, string][] = [
    ["run\u202egpj.exe", "run\\u202egpj.exe"], ["a\u2066b\u2069c", "a\\u2066b\\u2069c"],
    ["\\\u200f\u061c", "\\\\u200f\\u061c"], ["\ufeffx\u{e0041}", "\\ufeffx\\ue0041"],
  ];
  for (const [text, want] of cases) assert.deepEqual(shown(text), { [want]: want });
  // Joiners of scripts and emoji, letters that are written from right to left.
  for (const text of ["plain", "שלום", "👩\u200d💻", "نمی\u200cخواهم", "\"\\n"]) assert.deepEqual(shown(text), { [text]: text });
});

test("lists: any texts, round and back", () => {
  const next = chance(4);
  for (let i = 0; i < 500; i += 1) {
    const list = Array.from({ length: 1 + next(4) }, () => Array.from({ length: 1 + next(5) }, () => ",\\ab"[next(4)]).join(""));
    assert.deepEqual(splitList(joinList(list)), list);
  }
  assert.deepEqual(splitList(undefined), []);
});

test("logs: control sequences out, lines written over as a terminal shows them", () => {
  assert.equal(plainText("\x1b[1;32mloss\x1b[0m 1\x1b]0;title\x07!\x1b(B"), "loss 1!");
  assert.equal(plainText("10%\r50%\r100%\nnext\r\n"), "100%\nnext\n");
  assert.equal(plainText("50%\r"), "50%");
  assert.equal(plainText("a\x00b\x08\x9b31mc\tü"), "abc\tü");
  assert.equal(plainText("<script>alert(1)</script>"), "<script>alert(1)</script>", "text stays text; who draws it draws it as text");
  for (const rest of plainText(Array.from({ length: 256 }, (_, i) => String.fromCharCode(i)).join("\x1b["))) {
    const code = rest.charCodeAt(0);
    assert.ok(code === 9 || code === 10 || (code >= 32 && code < 127) || code >= 160, `${code}`);
  }
});

test("the tail of a text begins with a line", () => {
  assert.equal(tailOf("one\ntwo\nthree\n", 8), "three\n");
  assert.equal(tailOf("short", 80), "short");
});

test("arguments are quoted for a shell", () => {
  assert.equal(shellLine(["python3", "a b", "it's", "$HOME", "", "--lr=1e-3"]), `python3 'a b' 'it'\\''s' '$HOME' '' --lr=1e-3`);
});

test("numbers as people read them", () => {
  assert.deepEqual([0.42, 9.96, 42, 192, 3600, 7500, 90_000].map((s) => duration(s)), ["0.4s", "10s", "42s", "3m12s", "1h00m", "2h05m", "1d1h"]);
  assert.equal(duration(null), "–");
  assert.equal(ticking(-3), "0s");
  assert.deepEqual([0, 1023, 1536, 85_899_345_920].map((n) => bytes(n)), ["0 B", "1023 B", "1.5 KiB", "80.0 GiB"]);
  assert.deepEqual([0.41234, 1.5e-5, 12_000, 0, 1e12].map((n) => number(n)), ["0.4123", "1.5e-5", "12000", "0", "1e12"]);
  assert.deepEqual([valueText([1, 2]), valueText(true), valueText(null), valueText(0.1)], ["[1,2]", "true", "", "0.1"]);
  assert.deepEqual([plural(1, "job"), plural(1000, "job"), plural(2, "box")], ["1 job", "1,000 jobs", "2 boxes"]);
});

test("what is not known is a gap, in a series and between buckets", () => {
  const usage = { step_s: 10, buckets: [{ at: iso(0), cores: [1, 2, 3] }, { at: iso(10) }, { at: iso(60), cores: 4 }] } as unknown as UsageSeries;
  const series = usageSeries(usage, "cores");
  assert.deepEqual(series?.x, [0, 10, 20, 60]);
  assert.deepEqual(series?.mean, [2, null, null, 4]);
  assert.equal(usageSeries(usage, "gpu_busy_percent"), null);
});

test("readings that got rarer are a line, not gaps", () => {
  const buckets = [0, 8, 16, 25, 90].map((s) => ({ at: iso(s), readings: 1, cores: [1, 1, 1] }));
  const series = usageSeries({ step_s: 1, buckets } as unknown as UsageSeries, "cores");
  assert.deepEqual(series?.mean, [1, 1, 1, 1, null, 1]);
});

test("spans are exact", () => {
  assert.deepEqual([0, 30, 60, 90, 3600, 5400, 90_061].map(span), ["0s", "30s", "1m", "1m30s", "1h", "1h30m", "1d1h1m1s"]);
});

test("metrics by step, or else by line", () => {
  const at = (points: Record<string, number>[]) => metricLine({ names: ["loss"], points }, "loss");
  assert.deepEqual(at([{ step: 2, loss: 1 }, { step: 1, loss: 3 }, { step: 3 }]), { x: [1, 2], y: [3, 1], axis: "step" });
  assert.deepEqual(at([{ step: 1, loss: 1 }, { loss: 2 }]), { x: [1, 2], y: [1, 2], axis: "line" });
  assert.equal(at([{ step: 1 }]), null);
  assert.equal(spoken([null, 2, 1, null], String), "last 1, min 1, max 2");
  assert.equal(spoken([null], String), "no data");
});

test("what waits for the same reason is one line; held ones first", () => {
  const lines = waitingLines([
    job(1, { reason: "waits for train (job 5)" }), job(2, { reason: "waits for train (job 6)" }), job(3, { state: "running" }),
    job(4, { state: "held", reason: "held by you" }), job(5, { step: "eval" }),
  ]);
  assert.deepEqual(lines.map((line) => line.ids), [[4], [1, 2], [5]]);
});
