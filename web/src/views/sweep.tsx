// A sweep: how far it is, its lanes over time, its runs.
import { useEffect } from "preact/hooks";
import { link, useLive, useQuery, useValue, type SetQuery } from "../live/live";
import { plural } from "../model/format";
import { splitList } from "../model/route";
import { ended, total } from "../model/states";
import type { SweepState } from "../model/store";
import { CountList } from "../parts/counts";
import { Mark } from "../parts/mark";
import { Progress } from "../parts/progress";
import { JobTime, Until } from "../parts/time";
import { RunTable } from "./run_table";
import { SweepChart } from "./sweep_chart";
import { useHistory, useSweep, useTable, type Table } from "./sweep_data";

function Summary({ state, setQuery }: { state: SweepState; setQuery: SetQuery }) {
  const { sweep } = state;
  const all = total(sweep.counts);
  const done = ended(sweep.counts);
  return (
    <>
      <div class="head-line">
        <h1>{sweep.name}</h1>
        <span class="soft">sweep {sweep.id}</span>
      </div>
      <ul class="tiles">
        <li><b>{done} of {all}</b> jobs ended</li>
        <li><b>{sweep.runs.length.toLocaleString("en-US")}</b> {sweep.runs.length === 1 ? "run" : "runs"} × {plural(sweep.steps.length, "step")}</li>
        {done === all && all > 0
          ? <li><b>ended</b> no job is queued or live</li>
          : <li><b>{state.endAt === null ? "unknown" : <Until at={state.endAt} />}</b> expected end</li>}
        <li><b>{sweep.lanes}</b> {sweep.lanes === 1 ? "lane" : "lanes"} available</li>
      </ul>
      <Progress counts={sweep.counts} />
      <CountList counts={sweep.counts} to={(name) => setQuery({ filter: name })} />
      {sweep.warnings.length > 0 && (
        <ul class="notes warn" aria-label="Warnings">{sweep.warnings.map((text) => <li key={text}>{text}</li>)}</ul>
      )}
      <p class="soft path">{sweep.root}</p>
    </>
  );
}

/** Steps that run once for the sweep have no run, so no row in the table. */
function OnceSteps({ table }: { table: Table }) {
  if (table.once.length === 0) return null;
  return (
    <section class="card" aria-labelledby="once-title">
      <h2 id="once-title">Steps that run once</h2>
      <ul class="once">
        {table.once.flatMap((row) => row.list).map((job) => (
          <li key={job.id}>
            <a href={`#/job/${job.id}`}>{job.step}</a> <Mark state={job.state} /> {job.attempt > 0 && <JobTime job={job} />}{" "}
            <span class="soft">{job.reason}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Waiting({ id, error }: { id: number; error: string | null }) {
  const hasAll = useLive((state) => state.all !== null);
  const isKnown = useLive((state) => state.all?.sweeps.some((sweep) => sweep.id === id) ?? false);
  const state = useValue(link, (l) => l);
  return (
    <>
      <h1>Sweep {id}</h1>
      {error && <p class="notes bad">{error}</p>}
      <p class="empty">{hasAll && !isKnown && state === "live" ? "No data about this sweep yet. There may be no sweep with this number." : "Loading …"} <a href="#/">Overview</a></p>
    </>
  );
}

export function SweepView({ id }: { id: number }) {
  const [query, setQuery] = useQuery();
  const state = useSweep(id);
  const { history, error } = useHistory(id, state?.attemptsEnded ?? 0);
  const table = useTable(state, history, query);
  useEffect(() => { document.title = `${state?.sweep.name ?? `sweep ${id}`} – pergpu`; }, [state?.sweep.name]);
  if (!state || !table) return <Waiting id={id} error={error} />;
  return (
    <>
      <nav class="crumbs" aria-label="Where"><a href="#/">Sweeps</a> / {state.sweep.name}</nav>
      <Summary state={state} setQuery={setQuery} />
      {error && <p class="notes warn">Can't read attempts and metrics: {error}</p>}
      <SweepChart
        steps={state.sweep.steps} jobs={state.jobs} lanes={state.lanes} history={history}
        span={query.span ?? ""} asTable={query.chart === "table"} setQuery={setQuery}
      />
      <OnceSteps table={table} />
      <RunTable table={table} filter={query.filter ?? ""} cols={splitList(query.cols)} group={query.group ?? ""} shut={splitList(query.shut)} setQuery={setQuery} />
    </>
  );
}
