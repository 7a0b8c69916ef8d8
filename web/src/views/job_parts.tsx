// Parts of a job's view that are tables and lists.
import { bytes, duration, fullTime, kUnknown, parseTime, plural, valueText, clock } from "../model/format";
import { attemptClass, attemptNumber } from "../model/gantt";
import { shellLine, shellQuote } from "../model/text";
import { isLive } from "../model/states";
import type { ShownJob, WireAttempt } from "../model/types";
import { CopyButton } from "../parts/copy_button";
import { ClassMark } from "../parts/mark";
import { Ago, Elapsed } from "../parts/time";

function evidence(attempt: WireAttempt): string {
  if (attempt.signal !== null && attempt.signal !== undefined) return `signal ${attempt.signal}`;
  if (attempt.exit !== null && attempt.exit !== undefined) return `exit code ${attempt.exit}`;
  return kUnknown;
}

export function Attempts({ job, chosen, choose }: { job: ShownJob; chosen: number; choose: (n: number) => void }) {
  if (job.attempts.length === 0) return null;
  return (
    <section class="card" aria-labelledby="attempts-title">
      <h2 id="attempts-title">Attempts</h2>
      <div class="scroll" role="group" aria-labelledby="attempts-title" tabIndex={0}>
        <table>
          <caption>{plural(job.attempts.length, "attempt")}; {job.retries_left === 0 ? "no retries left" : `${plural(job.retries_left, "retry").replace("retrys", "retries")} left`}</caption>
          <thead><tr><th scope="col" class="n">No.</th><th scope="col">Outcome</th><th scope="col">Exit</th><th scope="col">Lane</th><th scope="col">Started</th><th scope="col" class="n">Duration</th><th scope="col">Reason</th><th scope="col">Usage</th></tr></thead>
          <tbody>
            {[...job.attempts].reverse().map((one) => {
              const n = attemptNumber(one);
              const isNow = n === job.attempt && isLive(job.state);
              const start = parseTime(one.started_at);
              return (
                <tr key={n} class={n === chosen ? "is-chosen" : undefined}>
                  <th scope="row" class="n">{n}</th>
                  <td>{attemptClass(one) === null && !isNow ? kUnknown : <ClassMark name={attemptClass(one)} />}</td>
                  <td>{isNow ? kUnknown : evidence(one)}</td>
                  <td>{one.lane ?? kUnknown}{one.gpus && one.gpus.length > 0 && <div class="soft small-text">{one.gpus.join(", ")}</div>}</td>
                  <td>{start === null ? kUnknown : <time dateTime={one.started_at ?? ""} title={fullTime(start)}>{clock(start)}</time>}</td>
                  <td class="n">{isNow ? <Elapsed since={one.started_at ?? null} /> : duration(one.duration_s)}</td>
                  <td class="wide">{one.reason || kUnknown}</td>
                  <td>{n === chosen ? <span class="soft">shown</span> : <button type="button" class="small" onClick={() => choose(n)}>Show</button>}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** What was executed at last; before the first start, what the file says. */
function commandText(job: ShownJob): string {
  if (job.argv && job.argv.length > 0) return shellLine(job.argv);
  if (Array.isArray(job.command)) return shellLine(job.command);
  return job.command ?? "";
}

export function Command({ job }: { job: ShownJob }) {
  const command = commandText(job);
  const whole = `cd ${shellQuote(job.cwd)} && ${command}`;
  return (
    <section class="card" aria-labelledby="command-title">
      <div class="bar-line">
        <h2 id="command-title">Run it by hand</h2>
        <span class="grow" />
        <CopyButton text={whole} what="command" />
      </div>
      <pre class="command" tabIndex={0} role="group" aria-label="Command">{whole}</pre>
      <p class="soft">
        {job.argv ? "Command of the last attempt" : "Command in the sweep file"}, with secrets hidden.
        {job.attempt > 0 && <> <code>{job.out}/attempt.json</code> records the environment: the names of all variables, and the values that pergpu set.</>}
        {job.file && <> The sweep file is <code>{job.file}</code>.</>}
        {job.git_commit && <> Commit <code>{job.git_commit.slice(0, 12)}</code>{job.git_dirty ? ", with uncommitted changes" : ""}.</>}
      </p>
    </section>
  );
}

export function Params({ job }: { job: ShownJob }) {
  const names = Object.keys(job.params ?? {});
  return (
    <section class="card" aria-labelledby="params-title">
      <h2 id="params-title">Parameters</h2>
      {names.length === 0 ? <p class="empty">None.</p> : (
        <table class="facts">
          <caption class="hidden">Parameters of the run</caption>
          <tbody>{names.map((name) => <tr key={name}><th scope="row">{name}</th><td>{valueText(job.params[name])}</td></tr>)}</tbody>
        </table>
      )}
    </section>
  );
}

const kLimitNames: Record<string, string> = { gpu_memory: "GPU memory", idle_timeout: "idle timeout", cpus: "CPUs", gpus: "GPUs" };

export function Facts({ job }: { job: ShownJob }) {
  const last = job.last_attempt;
  return (
    <section class="card" aria-labelledby="facts-title">
      <h2 id="facts-title">Limits and details</h2>
      <table class="facts">
        <caption class="hidden">Limits and details of the job</caption>
        <tbody>
          {Object.entries(job.limits ?? {}).map(([name, value]) => (
            <tr key={name}><th scope="row">{kLimitNames[name] ?? name}</th><td>{value}{job.limits_held?.[name] && <span class="soft">, enforced by: {job.limits_held[name]}</span>}</td></tr>
          ))}
          {job.needs.length > 0 && <tr><th scope="row">needs</th><td>{job.needs.join(", ")}</td></tr>}
          <tr><th scope="row">queued</th><td><Ago at={job.queued_at} /></td></tr>
          {job.expected_s !== null && <tr><th scope="row">expected</th><td>{duration(job.expected_s)}</td></tr>}
          {job.learnt && <tr><th scope="row">learned</th><td>from {plural(job.learnt.jobs, "similar job")}: {duration(job.learnt.duration_s)} on average{job.learnt.memory_bytes !== null && `, at most ${bytes(job.learnt.memory_bytes)} of memory`}{job.learnt.gpu_memory_bytes !== null && `, at most ${bytes(job.learnt.gpu_memory_bytes)} of GPU memory`}</td></tr>}
          {last && last.peak_memory_bytes > 0 && <tr><th scope="row">peak memory</th><td>{bytes(last.peak_memory_bytes)}</td></tr>}
          {last && last.cpu_s > 0 && <tr><th scope="row">CPU time</th><td>{duration(last.cpu_s)}</td></tr>}
          {last && last.cpu_list.length > 0 && <tr><th scope="row">pinned to</th><td>{plural(last.cpu_list.length, "core")}: {last.cpu_list.join(", ")}</td></tr>}
          {last && last.pid > 0 && <tr><th scope="row">process</th><td>{last.pid}</td></tr>}
          <tr><th scope="row">folder</th><td class="path">{job.out}</td></tr>
          {job.notify?.map((text) => <tr key={text}><th scope="row">notifications</th><td>{text}</td></tr>)}
        </tbody>
      </table>
    </section>
  );
}
