// The plan as a table, and what to do where no plan can be made.
import { duration, parseTime, plural, when } from "../model/format";
import { serverNow } from "../live/api";
import { jobName } from "../model/states";
import type { Missing, Plan } from "../model/types";

const kMostRows = 500;

export function PlanTable({ plan }: { plan: Plan }) {
  const begin = parseTime(plan.at) ?? 0;
  const at = (s: number) => when(begin + s * 1000, serverNow());
  return (
    <div class="scroll short" role="group" aria-label="Schedule" tabIndex={0}>
      <table>
        <caption>{plural(plan.jobs.length, "job")}, by start time{plan.jobs.length > kMostRows ? `; only the first ${kMostRows} are shown` : ""}</caption>
        <thead><tr><th scope="col">Lane</th><th scope="col">Sweep</th><th scope="col">Job</th><th scope="col">Starts</th><th scope="col">Ends</th><th scope="col">Takes</th></tr></thead>
        <tbody>
          {plan.jobs.slice(0, kMostRows).map((job, i) => (
            <tr key={i}>
              <td>{job.lanes.join(", ")}</td><td>{job.sweep}</td>
              <td>{job.id === null ? jobName(job) : <a href={`#/job/${job.id}`}>{jobName(job)}</a>}</td>
              <td>{job.live ? "already running" : at(job.start_s)}</td><td>{at(job.end_s)}</td><td class="n">{duration(job.end_s - job.start_s)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function MissingDurations({ missing }: { missing: Missing["missing"] }) {
  const first = missing[0];
  return (
    <section class="card" aria-labelledby="missing-title">
      <h2 id="missing-title">How long do these take?</h2>
      <p>No plan yet: the durations of these steps are unknown:</p>
      <ul class="lines">{missing.map((one) => <li key={`${one.sweep}/${one.step}`}><b>{one.sweep}/{one.step}</b> <span class="soft">({plural(one.jobs, "job")})</span></li>)}</ul>
      <p>To get a plan, do one of the following:</p>
      <ul>
        <li>wait until one job of each step is done: pergpu then uses its duration;</li>
        <li>set the duration in the sweep file: <code>expect = "1h"</code> in <code>[steps.{first?.step ?? "train"}]</code>;</li>
        <li>set it for one plan: <code>pergpu plan {first?.sweep ?? ""} {missing.map((one) => `--expect ${one.step}=1h`).join(" ")}</code>.</li>
      </ul>
    </section>
  );
}
