// What a job used, and its metrics.  Read again now and then while it is live.
import { useEffect, useMemo, useState } from "preact/hooks";
import { get } from "../live/api";
import { useLoaded } from "../live/live";
import { bytes, number, percent, plural } from "../model/format";
import { metricLine, spoken, usageSeries } from "../model/series";
import type { MetricSeries, UsageSeries } from "../model/types";
import { LineChart } from "../parts/line_chart";

const kAgain = 5000;
const kMeasures: { key: string; title: string; text: (v: number) => string }[] = [
  { key: "cores", title: "CPU cores", text: (v) => number(v, 3) },
  { key: "resident_bytes", title: "Memory", text: bytes },
  { key: "gpu_busy_percent", title: "GPU busy", text: percent },
  { key: "gpu_memory_bytes", title: "GPU memory", text: bytes },
];

/** Grows every few seconds while the job is live and the tab is looked at, and once more at its end. */
function useAgain(isLive: boolean): number {
  const [n, set] = useState(0);
  useEffect(() => {
    set((old) => old + 1);
    if (!isLive) return undefined;
    const timer = window.setInterval(() => {
      if (document.visibilityState === "visible") set((old) => old + 1);
    }, kAgain);
    return () => window.clearInterval(timer);
  }, [isLive]);
  return n;
}

export function UsageCharts({ id, attempt, isLive }: { id: number; attempt: number; isLive: boolean }) {
  const n = useAgain(isLive);
  const { value, error } = useLoaded<UsageSeries>(attempt > 0 ? `${id}.${attempt} ${n}` : null, (signal) =>
    get(`/api/jobs/${id}/usage?attempt=${attempt}`, signal));
  const charts = useMemo(() => (value ? kMeasures.flatMap((measure) => {
    const series = usageSeries(value, measure.key);
    return series ? [{ ...measure, series }] : [];
  }) : []), [value]);
  return (
    <section class="card" aria-labelledby="usage-title">
      <h2 id="usage-title">Resource usage</h2>
      {charts.length === 0 && (
        <p class="empty">{error ?? (attempt === 0 ? "Not started yet." : !value ? "Loading …" : "No data: an ended attempt has usage data only if it ran longer than a minute.")}</p>
      )}
      <div class="plots">
        {charts.map(({ key, title, text, series }) => (
          <LineChart
            key={key} title={title} words={spoken(series.mean, text)} x={series.x} y={series.mean}
            band={{ least: series.least, most: series.most }} isTime text={text} floor={0} isBytes={text === bytes} sync="usage"
          />
        ))}
      </div>
      {charts.length > 0 && value && <p class="soft">Each point is the mean of {plural(value.step_s, "second")}; the shaded band shows min and max. Gaps mean no data.</p>}
    </section>
  );
}

export function MetricCharts({ id, attempt, isLive }: { id: number; attempt: number; isLive: boolean }) {
  const n = useAgain(isLive);
  const { value, error } = useLoaded<MetricSeries>(`${id}.${attempt} ${n}`, (signal) => get(`/api/jobs/${id}/metrics`, signal));
  const lines = useMemo(() => (value ? value.names.filter((name) => name !== "step").flatMap((name) => {
    const line = metricLine(value, name);
    return line ? [{ name, line }] : [];
  }) : []), [value]);
  return (
    <section class="card" aria-labelledby="metrics-title">
      <h2 id="metrics-title">Metrics</h2>
      {lines.length === 0 && <p class="empty">{error ?? (value ? <>No metrics: the job has written no numbers to <code>$PERGPU_METRICS</code>.</> : "Loading …")}</p>}
      <div class="plots">
        {lines.map(({ name, line }) => (
          <LineChart key={`${name} ${line.axis}`} title={name} words={spoken(line.y, number)} x={line.x} y={line.y} isTime={false} text={number} sync={`metrics-${line.axis}`} />
        ))}
      </div>
    </section>
  );
}
