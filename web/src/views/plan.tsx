// The schedule that is to be expected, or what has to be known for one.
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { get, serverNow } from "../live/api";
import { useLive, useLoaded, useQuery } from "../live/live";
import { duration, parseTime, percent, plural, span, when } from "../model/format";
import type { Bar } from "../model/gantt";
import { planChart, withLanesLines } from "../model/plan_chart";
import type { Missing, Plan } from "../model/types";
import { LaneChart } from "../parts/lane_chart";
import { Legend } from "../parts/legend";
import { MissingDurations, PlanTable } from "./plan_parts";

function Figures({ plan }: { plan: Plan }) {
  const end = parseTime(plan.end_at);
  return (
    <ul class="tiles">
      <li><b>{plan.total_s === null ? "never" : duration(plan.total_s)}</b> in total{end !== null && plan.total_s !== null && <>, until {when(end, serverNow())}</>}</li>
      <li><b>{duration(plan.lower_bound_s)}</b> lower bound</li>
      <li><b>{plan.idle_share === null ? "–" : percent(plan.idle_share * 100)}</b> of {plan.lane_count > 0 ? plural(plan.lane_count, plan.lane_kind || "lane") : "the lanes"} idle</li>
      <li><b>{plural(plan.jobs.length, "job")}</b> left{plan.held > 0 && `, ${plan.held} held (not counted)`}</li>
    </ul>
  );
}

function Words({ plan }: { plan: Plan }) {
  const kind = plan.lane_kind || "lane";
  const sources: Record<string, string> = { learnt: ", learned from done jobs", given: ", as given", known: "" };
  return (
    <div class="columns">
      <section class="card" aria-labelledby="binds-title">
        <h2 id="binds-title">Bottleneck</h2>
        <p>{plan.bound_by.words || "Nothing."}</p>
        {plan.with_expect_s !== null && <p>With <code>expect</code> in the sweep file, the longest jobs start first: {duration(plan.with_expect_s)} in total.</p>}
        {plan.with_lanes.length > 0 && (
          <>
            <h3>With other numbers of {kind}s</h3>
            <ul class="lines">{withLanesLines(plan).map((line) => <li key={line.lanes}>{line.lanes}: <b class="num">{line.total}</b></li>)}</ul>
          </>
        )}
      </section>
      <section class="card" aria-labelledby="rests-title">
        <h2 id="rests-title">Assumptions</h2>
        <ul class="lines">
          {plan.durations.map((one) => <li key={`${one.sweep}/${one.step}`}>{one.sweep}/{one.step} takes {duration(one.mean_s)} <span class="soft">({plural(one.jobs, "job")}{sources[one.source] ?? ""})</span></li>)}
          {plan.stuck.map((one) => <li key={`stuck ${one.sweep}/${one.step}`}><span class="bad-text">{plural(one.jobs, "job")} of {one.sweep}/{one.step} can't start</span>: {one.why}</li>)}
          {plan.notes.map((note) => <li key={note}>{note}</li>)}
        </ul>
        <p class="soft">Every job takes as long as expected, and no job fails. GPUs that are closed now stay closed.</p>
      </section>
    </div>
  );
}

function Schedule({ plan }: { plan: Plan }) {
  const [asTable, setTable] = useState(false);
  const steps = useMemo(() => [...new Set(plan.jobs.map((job) => job.step))], [plan]);
  const { chart, jobs } = useMemo(() => planChart(plan), [plan]);
  const begin = parseTime(plan.at) ?? 0;
  const draw = useCallback((bar: Bar) => {
    const job = jobs.get(bar.key);
    const took = bar.end === null ? "end unknown" : duration((bar.end - bar.start) / 1000);
    if (!job) return { look: { name: "other", step: 0 }, label: "", href: null, tip: ["a job of another sweep", `on ${bar.lane}`, took] };
    const from = begin + job.start_s * 1000;
    return {
      look: { name: "plan", step: steps.indexOf(job.step) }, label: job.run === "" ? job.step : (/^\d+/.exec(job.run)?.[0] ?? job.run),
      href: job.id === null ? null : `#/job/${job.id}`,
      tip: [job.run === "" ? `${job.step} (once)` : `${job.run}/${job.step}`, `on ${bar.lane}${job.live ? ", already running" : ""}`, `${when(from, serverNow())} to ${when(begin + job.end_s * 1000, serverNow())}, ${took}`],
    };
  }, [jobs, steps, begin]);
  if (!chart) return null;
  return (
    <section class="card" aria-labelledby="schedule-title">
      <div class="bar-line">
        <h2 id="schedule-title">Schedule</h2>
        <Legend steps={steps} isPlan={plan.others.length > 0} onlySteps />
        <span class="grow" />
        <button type="button" class="small" aria-pressed={asTable} onClick={() => setTable(!asTable)}>As a table</button>
      </div>
      {asTable ? <PlanTable plan={plan} /> : (
        <LaneChart title="Expected schedule: lanes over time. Arrow keys move between bars." {...chart} now={null} offset={-begin} axis={(at) => (at <= begin ? "now" : `+${span((at - begin) / 1000)}`)} draw={draw} />
      )}
    </section>
  );
}

export function PlanView() {
  const [query, setQuery] = useQuery();
  const sweeps = useLive((state) => state.all?.sweeps);
  const [again, setAgain] = useState(0);
  const wanted = query.sweep ?? "";
  const { value, error } = useLoaded<Plan | Missing>(`${wanted}\n${again}`, (signal) =>
    get(`/api/plan${wanted ? `?sweep=${encodeURIComponent(wanted)}` : ""}`, signal));
  useEffect(() => { document.title = "Plan – pergpu"; }, []);
  return (
    <>
      <div class="head-line">
        <h1>Plan</h1>
        <label class="pick">Sweep{" "}
          <select value={wanted} onChange={(e) => setQuery({ sweep: e.currentTarget.value })}>
            <option value="">all queued and running jobs</option>
            {wanted !== "" && !sweeps?.some((s) => s.name === wanted) && <option value={wanted}>{wanted}</option>}
            {sweeps?.map((sweep) => <option key={sweep.id} value={sweep.name}>{sweep.name}</option>)}
          </select>
        </label>
        <button type="button" class="small" onClick={() => setAgain(again + 1)}>Plan again</button>
        {value && "at" in value && <span class="soft">made at {when(parseTime(value.at) ?? 0, serverNow())}</span>}
      </div>
      {error && <p class="notes bad">{error}</p>}
      {!value && !error && <p class="empty">Planning …</p>}
      {value && "missing" in value && <MissingDurations missing={value.missing} />}
      {value && "jobs" in value && (value.jobs.length === 0 && value.stuck.length === 0
        ? <p class="empty card">Nothing to plan: no job is queued or running.</p>
        : <><Figures plan={value} /><Schedule plan={value} /><Words plan={value} /></>)}
    </>
  );
}
