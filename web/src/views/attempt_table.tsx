// What the chart of a sweep shows, as a table: the newest first.
import { clock, duration, plural } from "../model/format";
import type { Bar } from "../model/gantt";
import { jobName } from "../model/states";
import { Elapsed } from "../parts/time";
import { ClassMark } from "../parts/mark";

export function AttemptTable({ bars, most }: { bars: readonly Bar[]; most: number }) {
  const shown = [...bars].sort((a, b) => b.start - a.start).slice(0, most);
  return (
    <div class="scroll short" role="group" aria-label="Attempts" tabIndex={0}>
      <table>
        <caption>
          {plural(new Set(bars.map((bar) => `${bar.job}.${bar.number}`)).size, "attempt")}, newest first{bars.length > most ? `; only the first ${most} are shown` : ""}
        </caption>
        <thead>
          <tr><th scope="col">Lane</th><th scope="col">Job</th><th scope="col">Name</th><th scope="col">Outcome</th><th scope="col">Started</th><th scope="col">Duration</th></tr>
        </thead>
        <tbody>
          {shown.map((bar) => (
            <tr key={bar.key}>
              <td>{bar.lane}</td>
              <td class="n"><a href={`#/job/${bar.job}`}>{bar.number > 1 ? `${bar.job}.${bar.number}` : bar.job}</a></td>
              <td>{jobName(bar)}</td>
              <td><ClassMark name={bar.end === null ? null : bar.outcome} /></td>
              <td>{clock(bar.start)}</td>
              <td class="n">{bar.end === null ? <Elapsed since={new Date(bar.start).toISOString()} /> : duration((bar.end - bar.start) / 1000)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
