// A job: how it is and why, its attempts, how to run it by hand, its limits, its log, what it used.
import { useEffect, useState } from "preact/hooks";
import { get } from "../live/api";
import { useLive, useLoaded, useQuery } from "../live/live";
import { jobName, isLive, isEnded } from "../model/states";
import type { Job, ShownJob } from "../model/types";
import { Actions } from "../parts/actions";
import { LogView } from "../parts/log_view";
import { Mark } from "../parts/mark";
import { Name } from "../parts/name";
import { Ago, JobTime, Until } from "../parts/time";
import { Attempts, Command, Facts, Params } from "./job_parts";
import { MetricCharts, UsageCharts } from "./job_charts";

const kAgain = 5000;

/** Loaded anew when the live state tells of a change; a job it does not have is asked for now and then. */
function useShown(id: number): { shown: ShownJob | null; job: Job | null; error: string | null } {
  const told = useLive((state) => state.all?.jobs.get(id) ?? state.sweep?.jobs.get(id) ?? null);
  const isTold = useLive((state) => state.all?.jobs.has(id) ?? false);
  const [n, set] = useState(0);
  const version = told ? `${told.state} ${told.attempt} ${told.reason} ${told.ended_at}` : "";
  const { value, error } = useLoaded<ShownJob>(`${id} ${n} ${version}`, async (signal) => {
    const reply = await get<ShownJob | { jobs: ShownJob[] }>(`/api/jobs/${id}`, signal);
    return "jobs" in reply ? (reply.jobs[0] as ShownJob) : reply;
  });
  const state = value?.state;
  useEffect(() => {
    if (isTold || !state || isEnded(state)) return undefined;
    const timer = window.setInterval(() => {
      if (document.visibilityState === "visible") set((old) => old + 1);
    }, kAgain);
    return () => window.clearInterval(timer);
  }, [isTold, state]);
  return { shown: value, job: (isTold ? told : null) ?? value ?? told, error };
}

export function JobView({ id }: { id: number }) {
  const [query, setQuery] = useQuery();
  const { shown, job, error } = useShown(id);
  useEffect(() => { document.title = `job ${id} – pergpu`; }, []);
  if (!job) return <><h1>Job {id}</h1>{error ? <p class="notes bad">{error} <a href="#/">Overview</a></p> : <p class="empty">Loading …</p>}</>;
  const attempt = Number(query.attempt) || job.attempt;
  const reason = shown && shown.state === job.state ? shown.why : job.reason;
  return (
    <>
      <nav class="crumbs" aria-label="Where"><a href="#/">Sweeps</a> / <a href={`#/sweep/${job.sweep_id}`}>{job.sweep}</a> / {jobName(job)}</nav>
      <div class="head-line">
        <h1><Name text={jobName(job)} /></h1>
        <span class="soft">job {job.id}</span>
        <span class="grow" />
        <Actions jobs={[job]} isAlone retryDone />
      </div>
      <div class="state-line" role="group" aria-label="State">
        <span class="big"><Mark state={job.state} /></span>
        {job.attempt > 0 && <span>{isLive(job.state) ? "for " : "took "}<JobTime job={job} /></span>}
        {job.lane && <span>on <b>{job.lane}</b></span>}
        {isLive(job.state) && job.expected_end_at && <span>ends <Until at={job.expected_end_at} /></span>}
        {job.ended_at && isEnded(job.state) && <span>ended <Ago at={job.ended_at} /></span>}
        {job.progress && <span>progress <b>{job.progress}</b></span>}
      </div>
      {(reason || job.reason) && reason !== job.state && <p class="why">{reason || job.reason}</p>}
      {job.reason && reason !== job.reason && !reason.includes(job.reason) && <p class="why soft">{job.reason}</p>}
      {job.warnings.length > 0 && <ul class="notes warn" aria-label="Warnings">{job.warnings.map((text) => <li key={text}>{text}</li>)}</ul>}
      {job.replaced && <p class="notes warn">This is an older version: the definition in the sweep file has changed since then.{shown?.replaced_by && <> The newer version is <a href={`#/job/${shown.replaced_by}`}>job {shown.replaced_by}</a>.</>}</p>}
      {error && <p class="notes bad">{error}</p>}
      {shown && <Attempts job={shown} chosen={attempt} choose={(n) => setQuery({ attempt: n === job.attempt ? null : String(n) })} />}
      <LogView id={id} path={job.log} follows={query.follow !== "no"} setFollows={(f) => setQuery({ follow: f ? null : "no" })} />
      <MetricCharts id={id} attempt={job.attempt} isLive={isLive(job.state)} />
      <UsageCharts id={id} attempt={attempt} isLive={isLive(job.state) && attempt === job.attempt} />
      {shown && <Command job={shown} />}
      {shown && <div class="columns"><Params job={shown} /><Facts job={shown} /></div>}
    </>
  );
}
