// Who is on which lane: what, since when, until when; and of a lane that is not free, why.
import { useMemo } from "preact/hooks";
import { percent, roughly } from "../model/format";
import { compareNatural } from "../model/order";
import { ended, jobName, total } from "../model/states";
import type { AllState } from "../model/store";
import type { Gpu, Job, Lane } from "../model/types";
import { LaneMark, Mark } from "../parts/mark";
import { memo } from "../parts/memo";
import { Name } from "../parts/name";
import { Elapsed, Until } from "../parts/time";

const LaneLine = memo<{ lane: Lane; job: Job | null; busy: number | null }>(function LaneLine({ lane, job, busy }) {
  return (
    <tr>
      <th scope="row">{lane.name}</th>
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

const kMostOwn = 256; // more free lanes nobody looks through

/** Lanes as told, those that a live job names and nobody told of, and the free ones of open sweeps. */
function lanesOf(all: AllState, live: readonly Job[]): Lane[] {
  const known = new Set(all.lanes.map((lane) => lane.name));
  const lane = (name: string, job: number | null): Lane => {
    known.add(name);
    return { name, uuid: "", state: job === null ? "free" : "busy", why: "", job, idle_s: null, idle_now_s: null };
  };
  const more = live.filter((job) => job.lane && !known.has(job.lane)).map((job) => lane(job.lane as string, job.id));
  const own = all.sweeps.filter((sweep) => sweep.lanes > 0 && total(sweep.counts) > ended(sweep.counts));
  if (own.length === 1) {
    for (let i = 0; i < Math.min(kMostOwn, own[0]?.lanes ?? 0); i += 1) if (!known.has(`lane${i}`)) more.push(lane(`lane${i}`, null));
  }
  return [...all.lanes, ...more].sort((a, b) => compareNatural(a.name, b.name));
}

export function LaneTable({ all, live }: { all: AllState; live: Job[] }) {
  const lanes = useMemo(() => lanesOf(all, live), [all.lanes, all.sweeps, live.map((job) => `${job.id}${job.lane}`).join()]);
  const byLane = new Map(live.map((job) => [job.lane, job]));
  const gpuOf = new Map<string, Gpu>(all.gpus.map((gpu) => [gpu.uuid, gpu]));
  const used = lanes.filter((lane) => byLane.has(lane.name) || lane.job !== null).length;
  return (
    <section class="card" aria-labelledby="lanes-title">
      <h2 id="lanes-title">Lanes</h2>
      {lanes.length === 0 ? <p class="empty">No lane is in use{all.cpu_lanes > 0 ? `; ${all.cpu_lanes} CPU lanes are free` : ""}.</p> : (
        <div class="scroll" role="group" aria-labelledby="lanes-title" tabIndex={0}>
          <table class="lanes">
            <caption>{used} of {lanes.length} in use</caption>
            <thead><tr><th scope="col">Lane</th><th scope="col">Job</th><th scope="col" class="n">For</th><th scope="col" class="n">Ends</th><th scope="col" class="n">GPU busy</th></tr></thead>
            <tbody>
              {lanes.map((lane) => {
                const job = byLane.get(lane.name) ?? (lane.job !== null ? (all.jobs.get(lane.job) ?? null) : null);
                return <LaneLine key={lane.name} lane={lane} job={job} busy={job?.gpu_busy_percent ?? gpuOf.get(lane.uuid)?.busy_percent ?? null} />;
              })}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
