// Everything at a glance: the sweeps, who is on which lane, what waits and why, what failed last.
import { useEffect, useMemo } from "preact/hooks";
import { useLive } from "../live/live";
import { plural } from "../model/format";
import { countsText, ended, isLive, jobName, toneOf, total } from "../model/states";
import type { AllState } from "../model/store";
import type { Job, SweepSummary } from "../model/types";
import { waitingLines } from "../model/waiting";
import { CountList } from "../parts/counts";
import { Mark } from "../parts/mark";
import { Progress } from "../parts/progress";
import { Ago } from "../parts/time";
import { memo } from "../parts/memo";
import { Name } from "../parts/name";
import { LaneTable } from "./lane_table";

const kMostFailed = 8;
const kMostWaiting = 12;

const SweepRow = memo<{ sweep: SweepSummary }>(function SweepRow({ sweep }) {
  const all = total(sweep.counts);
  return (
    <li>
      <a class="name" href={`#/sweep/${sweep.id}`}>{sweep.name}</a>
      <span class="num soft">{ended(sweep.counts)} of {all} ended</span>
      <Progress counts={sweep.counts} />
      <span class="soft words">{countsText(sweep.counts)}</span>
    </li>
  );
});

function Sweeps({ sweeps }: { sweeps: SweepSummary[] }) {
  return (
    <section class="card" aria-labelledby="sweeps-title">
      <h2 id="sweeps-title">Sweeps</h2>
      {sweeps.length === 0
        ? <p class="empty">No sweeps yet. Start one with <code>pergpu submit sweep.toml</code>; it appears here automatically.</p>
        : <ul class="sweeps">{[...sweeps].sort((a, b) => b.id - a.id).map((sweep) => <SweepRow key={sweep.id} sweep={sweep} />)}</ul>}
    </section>
  );
}

function Waiting({ all }: { all: AllState }) {
  const lines = useMemo(() => waitingLines(all.jobs.values()), [all.jobs]);
  const told = (all.counts.queued ?? 0) + (all.counts.held ?? 0);
  const known = lines.reduce((sum, line) => sum + line.ids.length, 0);
  return (
    <section class="card" aria-labelledby="waiting-title">
      <h2 id="waiting-title">Waiting</h2>
      {lines.length === 0 ? <p class="empty">No jobs are waiting.</p> : (
        <ul class="lines">
          {lines.slice(0, kMostWaiting).map((line) => (
            <li key={`${line.ids[0]}`}>
              <Mark state={line.state as Job["state"]} />{" "}
              <a href={line.ids.length === 1 ? `#/job/${line.ids[0]}` : `#/sweep/${line.sweepId}?filter=${encodeURIComponent(line.state)}`}>
                {line.ids.length === 1 ? `job ${line.ids[0]}` : plural(line.ids.length, "job")}
              </a>{" "}
              of {line.sweep}/{line.step}{line.reason && <span class="soft">: {line.reason}</span>}
            </li>
          ))}
        </ul>
      )}
      {(told > known || lines.length > kMostWaiting) && (
        <p class="soft">{lines.length > kMostWaiting ? `${lines.length - kMostWaiting} more reasons. ` : ""}{told > known ? `This list covers only the first ${known} of ${plural(told, "waiting job")}.` : ""}</p>
      )}
    </section>
  );
}

function Failed({ all }: { all: AllState }) {
  const failed = useMemo(() => [...all.jobs.values()]
    .filter((job) => toneOf(job.state) === "bad" && !job.replaced)
    .sort((a, b) => Date.parse(b.ended_at ?? "") - Date.parse(a.ended_at ?? "")), [all.jobs]);
  if (failed.length === 0) return null;
  return (
    <section class="card" aria-labelledby="failed-title">
      <h2 id="failed-title">Recent failures</h2>
      <ul class="lines">
        {failed.slice(0, kMostFailed).map((job) => (
          <li key={job.id}>
            <Mark state={job.state} /> <a href={`#/job/${job.id}`}><Name text={`${job.sweep}/${jobName(job)}`} /></a>
            <span class="soft">: {job.reason} <Ago at={job.ended_at} /></span>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function Overview() {
  const all = useLive((state) => state.all);
  useEffect(() => { document.title = "pergpu"; }, []);
  if (!all) return <><h1>Overview</h1><p class="empty">Loading …</p></>;
  const liveJobs = [...all.jobs.values()].filter((job) => isLive(job.state));
  return (
    <>
      <h1>Overview</h1>
      <CountList counts={all.counts} />
      <div class="columns">
        <div>
          <Sweeps sweeps={all.sweeps} />
          <Waiting all={all} />
          <Failed all={all} />
        </div>
        <LaneTable all={all} live={liveJobs} />
      </div>
    </>
  );
}
