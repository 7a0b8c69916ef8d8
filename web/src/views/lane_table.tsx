// Who is on which lane: what, since when, until when; and of a lane that is not free, why.
import { useMemo } from "preact/hooks";
import { percent, roughly } from "../model/format";
import { laneLooks } from "../model/lanes";
import { jobName } from "../model/states";
import type { AllState } from "../model/store";
import type { Gpu, Job, Lane } from "../model/types";
import { LaneMark, Mark } from "../parts/mark";
import { memo } from "../parts/memo";
import { Name } from "../parts/name";
import { Elapsed, Until } from "../parts/time";

const LaneLine = memo<{ title: string; lane: Lane; job: Job | null; busy: number | null }>(function LaneLine({ title, lane, job, busy }) {
  return (
    <tr>
      <th scope="row">{title}</th>
      {job ? (
        <>
          <td class="what">
            <a href={`#/job/${job.id}`}><Name text={`${job.sweep}/${jobName(job)}`} /></a>
            <div class="soft">{job.state !== "running" && <><Mark state={job.state} /> </>}{[job.progress, job.status].filter(Boolean).join(", ")}</div>
          </td>
          <td class="n"><Elapsed since={job.started_at} /></td>
          <td class="n">{job.expected_end_at ? <Until at={job.expected_end_at} /> : "–"}</td>
        </>
      ) : (
        <td class="what" colSpan={3}>
          <LaneMark state={lane.state} /> <span class="soft">{lane.why}{lane.state === "free" && lane.idle_now_s ? `for ${roughly(lane.idle_now_s)}` : ""}</span>
        </td>
      )}
      <td class="n">
        {busy === null ? "–" : (
          <span class="meter" title="GPU busy"><span class="meter-bar" aria-hidden="true"><span style={{ width: `${Math.min(100, busy)}%` }} /></span>{percent(busy)}</span>
        )}
      </td>
    </tr>
  );
});

export function LaneTable({ all, live }: { all: AllState; live: Job[] }) {
  const lanes = useMemo(() => laneLooks(all, live), [all.lanes, all.sweeps, live.map((job) => `${job.id}${job.lane}`).join()]);
  const gpuOf = new Map<string, Gpu>(all.gpus.map((gpu) => [gpu.uuid, gpu]));
  const used = lanes.filter((row) => row.job !== null).length;
  return (
    <section class="card" aria-labelledby="lanes-title">
      <h2 id="lanes-title">Lanes</h2>
      {lanes.length === 0 ? <p class="empty">No lane is in use{all.cpu_lanes > 0 ? `; ${all.cpu_lanes} CPU lanes are free` : ""}.</p> : (
        <div class="scroll" role="group" aria-labelledby="lanes-title" tabIndex={0}>
          <table class="lanes">
            <caption>{used} of {lanes.length} in use</caption>
            <thead><tr><th scope="col">Lane</th><th scope="col">Job</th><th scope="col" class="n">For</th><th scope="col" class="n">Ends</th><th scope="col" class="n">GPU busy</th></tr></thead>
            <tbody>
              {lanes.map(({ key, title, lane, job: id }) => {
                const job = id !== null ? (all.jobs.get(id) ?? null) : null;
                return <LaneLine key={key} title={title} lane={lane} job={job} busy={job?.gpu_busy_percent ?? gpuOf.get(lane.uuid)?.busy_percent ?? null} />;
              })}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
