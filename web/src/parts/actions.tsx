// Cancel, hold, release and retry for some jobs.  What cannot be undone is asked about first.  What
// came of it is said in words, in the live region.
import { useState } from "preact/hooks";
import { act } from "../live/api";
import { hello, say, useValue } from "../live/live";
import { plural } from "../model/format";
import { allows, isLive, jobName, type Action } from "../model/states";
import type { Changed, Job } from "../model/types";
import { Dialog } from "./dialog";

const kActions: Action[] = ["cancel", "hold", "release", "retry"];
const kTitles: Record<Action, string> = { cancel: "Cancel", hold: "Hold", release: "Release", retry: "Retry" };
const kHints: Record<Action, string> = {
  cancel: "End live jobs and remove queued jobs from the queue",
  hold: "Hold queued jobs until released",
  release: "Queue held jobs again",
  retry: "Queue ended jobs again, with fresh retries",
};
const kDone: Record<Action, string> = {
  cancel: "cancelled or ending", hold: "held", release: "queued again", retry: "queued again",
};

function resultText(action: Action, result: Changed): string {
  const left = result.left ?? [];
  const words = [`${plural(result.changed.length, "job")} ${kDone[action]}`];
  if (left.length > 0) {
    const some = left.slice(0, 3).map((one) => `${one.id} is ${one.replaced ? "an older version" : one.state}`).join(", ");
    words.push(`${left.length} unchanged: ${some}${left.length > 3 ? " …" : ""}`);
  }
  return `${words.join("; ")}.`;
}

function Confirm({ jobs, onDo, onClose }: { jobs: Job[]; onDo: (kill: boolean) => void; onClose: () => void }) {
  const [kill, setKill] = useState(false);
  const liveOnes = jobs.filter((job) => isLive(job.state)).length;
  return (
    <Dialog title={`Cancel ${plural(jobs.length, "job")}?`} onClose={onClose}>
      <ul class="names">
        {jobs.slice(0, 6).map((job) => <li key={job.id}><code>{job.id}</code> {jobName(job)} <span class="soft">{job.state}</span></li>)}
        {jobs.length > 6 && <li class="soft">and {jobs.length - 6} more</li>}
      </ul>
      {liveOnes > 0 && (
        <>
          <p>{liveOnes === 1 ? "One of them is live: it" : `${liveOnes} of them are live: each`} gets SIGTERM, then SIGKILL after its grace period.</p>
          <label class="check"><input type="checkbox" checked={kill} onChange={(e) => setKill(e.currentTarget.checked)} /> Kill at once, without a grace period</label>
        </>
      )}
      <div class="buttons">
        <button type="button" onClick={onClose}>Don't cancel</button>
        <button type="button" class="danger" onClick={() => onDo(kill)}>{kill ? "Kill" : "Cancel"} {plural(jobs.length, "job")}</button>
      </div>
    </Dialog>
  );
}

/** `isAlone`: for one job, without counts. */
export function Actions({ jobs, isAlone = false, retryDone = false }: { jobs: Job[]; isAlone?: boolean; retryDone?: boolean }) {
  const isReadonly = useValue(hello, (h) => h?.readonly ?? true);
  const [asked, setAsked] = useState<Job[] | null>(null);
  const [isBusy, setBusy] = useState(false);
  if (isReadonly) return null;
  const doIt = async (action: Action, of: Job[], kill = false) => {
    setAsked(null);
    setBusy(true);
    try {
      say(resultText(action, await act(action, of.map((job) => job.id), kill)));
    } catch (error) {
      say(`Can't ${action}: ${error instanceof Error ? error.message : String(error)}`, true);
    }
    setBusy(false);
  };
  const fits = (action: Action) => jobs.filter((job) =>
    !job.replaced && allows(action, job.state) && (action !== "retry" || retryDone || job.state !== "done"));
  return (
    <span class="actions" role="group" aria-label="Actions">
      {kActions.map((action) => {
        const of = fits(action);
        if (isAlone && of.length === 0) return null;
        return (
          <button
            key={action} type="button" title={kHints[action]} class={action === "cancel" ? "danger" : ""}
            disabled={isBusy || of.length === 0}
            onClick={() => (action === "cancel" ? setAsked(of) : void doIt(action, of))}
          >
            {kTitles[action]}{isAlone ? "" : ` ${of.length}`}
          </button>
        );
      })}
      {asked && <Confirm jobs={asked} onClose={() => setAsked(null)} onDo={(kill) => void doIt("cancel", asked, kill)} />}
    </span>
  );
}
