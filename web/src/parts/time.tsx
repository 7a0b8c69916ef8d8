// Times, relative and absolute.  Only these small parts are drawn again as the clock ticks.
import { clock, duration, fullTime, kUnknown, parseTime, roughly, ticking, when } from "../model/format";
import { isLive } from "../model/states";
import type { Job } from "../model/types";
import { useNow } from "../live/live";

/** Seconds since then, ticking. */
export function Elapsed({ since }: { since: string | null }) {
  const now = useNow();
  const start = parseTime(since);
  return <span class="num">{start === null ? kUnknown : ticking((now - start) / 1000)}</span>;
}

/** How long the newest attempt took, or takes by now. */
export function JobTime({ job }: { job: Job }) {
  if (isLive(job.state)) return <Elapsed since={job.started_at} />;
  return <span class="num">{duration(job.duration_s)}</span>;
}

/** "14:05:10, 3m ago" */
export function Ago({ at }: { at: string | null }) {
  const now = useNow();
  const ms = parseTime(at);
  if (ms === null) return <span>{kUnknown}</span>;
  const isToday = new Date(ms).toDateString() === new Date(now).toDateString();
  return (
    <time dateTime={new Date(ms).toISOString()} title={fullTime(ms)}>
      {isToday ? clock(ms) : when(ms, now)} <span class="soft">({roughly((now - ms) / 1000)} ago)</span>
    </time>
  );
}

/** "in ~12m (14:05)", or how late it is. */
export function Until({ at }: { at: string | number | null }) {
  const now = useNow();
  const ms = typeof at === "number" ? at : parseTime(at);
  if (ms === null) return <span>{kUnknown}</span>;
  const left = (ms - now) / 1000;
  return (
    <time dateTime={new Date(ms).toISOString()} title={fullTime(ms)}>
      {left > 0 ? `in ~${roughly(left)}` : `${roughly(-left)} late`} <span class="soft">({when(ms, now)})</span>
    </time>
  );
}
