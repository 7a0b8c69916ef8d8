// The chart of a sweep: its attempts on their lanes, those that are live growing; and the same as a table.
import { useCallback, useMemo, useState } from "preact/hooks";
import { clockTick, useValue, type SetQuery } from "../live/live";
import { serverNow } from "../live/api";
import { clock, duration, when } from "../model/format";
import { attemptsOf, layOut, type Bar, type Chart } from "../model/gantt";
import { jobName } from "../model/states";
import type { HistoryJob, Job, Lane } from "../model/types";
import { LaneChart, type Drawn } from "../parts/lane_chart";
import { Legend } from "../parts/legend";
import { AttemptTable } from "./attempt_table";

const kSpans: Record<string, number> = { "10m": 600, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800 };
const kTableRows = 500;

interface Props {
  steps: string[];
  jobs: ReadonlyMap<number, Job>;
  lanes: readonly Lane[];
  history: ReadonlyMap<number, HistoryJob>;
  span: string;
  asTable: boolean;
  setQuery: SetQuery;
}

const offset = (): number => -new Date().getTimezoneOffset() * 60_000;

function lookOf(outcome: string): string {
  if (outcome === "ok" || outcome === "live") return outcome;
  return outcome === "cancelled" || outcome === "requeue" ? "gone" : "bad";
}

function outcomeWords(bar: Bar): string {
  const now = serverNow();
  if (bar.end === null) {
    const so = `live for ${duration((now - bar.start) / 1000)}`;
    return bar.expectedEnd === null ? so : `${so}, expected until ${when(bar.expectedEnd, now)}`;
  }
  return `${bar.outcome === "ok" ? "done" : bar.outcome} after ${duration((bar.end - bar.start) / 1000)}`;
}

/** "03" of 03-lr=0.1: bars are short. */
function labelOf(bar: Bar, look: string): string {
  const text = bar.run === "" ? bar.step : (/^\d+/.exec(bar.run)?.[0] ?? bar.run);
  return look === "bad" ? `✖ ${text}` : text;
}

/** Lanes that the sweep may use although nothing of it has run there: only where they are few. */
function laneNames(lanes: readonly Lane[], chartHas: number): string[] {
  return lanes.length <= 16 || chartHas === 0 ? lanes.map((lane) => lane.name) : [];
}

export function SweepChart(props: Props) {
  const { jobs, history, span, lanes } = props;
  const [shownUntil] = useState({ end: 0 });
  // Another layout when the clock runs over the right edge, not each second.
  const over = useValue(clockTick, (now) => (now > shownUntil.end ? Math.floor(now / 1000) : 0));
  const attempts = useMemo(() => attemptsOf(jobs.values(), history), [jobs, history]);
  const names = useMemo(() => laneNames(lanes, attempts.length), [lanes, attempts.length === 0]);
  const chart: Chart | null = useMemo(() => {
    const now = serverNow();
    const seconds = kSpans[span];
    return layOut(attempts, names, now, seconds === undefined ? null : now - seconds * 1000);
  }, [attempts, names, span, over]);
  shownUntil.end = chart && attempts.some((a) => a.end === null) ? chart.end : Infinity;

  const notes = useMemo(() => {
    const used = new Set(attempts.map((a) => a.lane));
    return new Map(lanes.filter((lane) => !used.has(lane.name) && lane.state !== "free" && lane.state !== "busy").map((lane) => [lane.name, lane.state]));
  }, [lanes, attempts]);
  const stepAt = useMemo(() => new Map(props.steps.map((step, i) => [step, i])), [props.steps]);
  const draw = useCallback((bar: Bar): Drawn => {
    const look = lookOf(bar.outcome);
    return {
      look: { name: look, step: stepAt.get(bar.step) ?? 0 },
      label: labelOf(bar, look),
      href: `#/job/${bar.job}`,
      tip: [
        jobName(bar),
        `job ${bar.job}${bar.number > 1 ? `, attempt ${bar.number}` : ""} on ${bar.lane}`,
        outcomeWords(bar),
        `from ${clock(bar.start)}${bar.end === null ? "" : ` to ${clock(bar.end)}`}`,
      ],
    };
  }, [stepAt]);
  const axis = (at: number, step: number) => (step < 60_000 ? clock(at) : step >= 86_400_000 ? when(at, 0).replace(/ \d\d:\d\d$/, "") : when(at, at));
  return (
    <section aria-labelledby="chart-title" class="card">
      <div class="bar-line">
        <h2 id="chart-title">Lanes over time</h2>
        <Legend steps={props.steps} />
        <span class="grow" />
        <label class="pick">Span{" "}
          <select value={span in kSpans ? span : ""} onChange={(e) => props.setQuery({ span: e.currentTarget.value })}>
            <option value="">all</option>
            {Object.keys(kSpans).map((name) => <option key={name} value={name}>last {name}</option>)}
          </select>
        </label>
        <button type="button" class="small" aria-pressed={props.asTable} onClick={() => props.setQuery({ chart: props.asTable ? null : "table" })}>As a table</button>
      </div>
      {!chart && <p class="empty">{attempts.length === 0 ? "Nothing has started yet. Bars appear here as jobs start." : "No job ran in this time span."}</p>}
      {chart && !props.asTable && (
        <LaneChart title={`Attempts on ${chart.lanes.length} lanes over time. Arrow keys move between bars.`} {...chart} now={0} offset={offset()} axis={axis} draw={draw} notes={notes} />
      )}
      {chart && props.asTable && <AttemptTable bars={chart.bars} most={kTableRows} />}
    </section>
  );
}
