// Series for charts: buckets of usage and points of metrics as columns of numbers.  What is not known
// is null, which a chart leaves as a gap; a pause between buckets is one, too.  Readings that cost much
// get rarer by themselves: a pause is what is longer than three usual ones.
import { parseTime } from "./format";
import type { Bucket, MetricSeries, UsageSeries } from "./types";

export interface Series { x: number[]; least: (number | null)[]; mean: (number | null)[]; most: (number | null)[] }

function triple(value: unknown): [number, number, number] | null {
  if (typeof value === "number") return [value, value, value];
  if (!Array.isArray(value) || value.length !== 3) return null;
  return value.every((v) => typeof v === "number") ? (value as [number, number, number]) : null;
}

/** Null: no bucket knows this measure.  x in seconds. */
export function usageSeries(usage: UsageSeries, measure: string): Series | null {
  const series: Series = { x: [], least: [], mean: [], most: [] };
  let isKnown = false;
  const push = (x: number, values: [number, number, number] | null) => {
    series.x.push(x);
    series.least.push(values?.[0] ?? null);
    series.mean.push(values?.[1] ?? null);
    series.most.push(values?.[2] ?? null);
  };
  const times = (usage.buckets as Bucket[]).map((bucket) => parseTime(bucket.at)).filter((at): at is number => at !== null);
  const apart = times.slice(1).map((at, i) => (at - (times[i] as number)) / 1000).sort((a, b) => a - b);
  const usual = Math.max(usage.step_s, apart[Math.floor((apart.length - 1) / 2)] ?? 0);
  let before: number | null = null;
  for (const bucket of usage.buckets as Bucket[]) {
    const at = parseTime(bucket.at);
    if (at === null) continue;
    const x = at / 1000;
    if (before !== null && x - before > usual * 3) push(before + usual, null);
    const values = triple(bucket[measure]);
    isKnown ||= values !== null;
    push(x, values);
    before = x;
  }
  return isKnown ? series : null;
}

export interface MetricLine { x: number[]; y: (number | null)[]; axis: "step" | "line" }

/** By step where every point that has the metric tells its step, else by line. */
export function metricLine(metrics: MetricSeries, name: string): MetricLine | null {
  const points = metrics.points.filter((p) => p[name] !== undefined);
  if (points.length === 0) return null;
  const y = points.map((p) => (typeof p[name] === "number" ? (p[name] as number) : null));
  if (points.every((p) => typeof p.step === "number")) {
    const order = points.map((p, i) => ({ x: p.step as number, y: y[i] ?? null })).sort((a, b) => a.x - b.x);
    return { x: order.map((o) => o.x), y: order.map((o) => o.y), axis: "step" };
  }
  return { x: points.map((_, i) => i + 1), y, axis: "line" };
}

/** What a chart shows, in words, for who does not see it. */
export function spoken(y: readonly (number | null)[], text: (v: number) => string): string {
  const known = y.filter((v): v is number => v !== null);
  if (known.length === 0) return "no data";
  const last = known[known.length - 1] as number;
  const min = known.reduce((a, b) => Math.min(a, b));
  const max = known.reduce((a, b) => Math.max(a, b));
  return `last ${text(last)}, min ${text(min)}, max ${text(max)}`;
}
