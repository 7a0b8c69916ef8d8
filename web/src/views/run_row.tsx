// A row of the run table.  Its props keep their identity while nothing of the run changes.
import { serverNow } from "../live/api";
import type { Column } from "../model/columns";
import { cellText, rowSeconds, type Row } from "../model/rows";
import { isLive } from "../model/states";
import { ticking } from "../model/format";
import { useNow } from "../live/live";
import { Mark } from "../parts/mark";
import { memo } from "../parts/memo";
import { JobTime } from "../parts/time";

interface Props {
  row: Row;
  columns: readonly Column[];
  at: number;
  isChosen: boolean;
  canChoose: boolean;
  onToggle: (key: string) => void;
}

/** The sum over a run's steps, while one of them is live. */
function RowTime({ row }: { row: Row }) {
  const now = useNow();
  return <>{ticking(rowSeconds(row, now) ?? 0)}</>;
}

function Cell({ row, column }: { row: Row; column: Column }) {
  if (column.kind === "step") {
    const job = row.jobs.get(column.key);
    if (!job) return <td class="step soft">–</td>;
    return (
      <td class="step">
        <a href={`#/job/${job.id}`} title={`job ${job.id}${job.reason ? `: ${job.reason}` : ""}`}><Mark state={job.state} /></a>
        {job.progress && isLive(job.state) ? <span class="soft"> {job.progress}</span> : job.attempt > 0 && <span class="soft"> <JobTime job={job} /></span>}
      </td>
    );
  }
  if (column.kind === "state") return <td><Mark state={row.state} /></td>;
  if (column.kind === "time" && row.list.some((job) => isLive(job.state))) return <td class="n"><RowTime row={row} /></td>;
  const text = cellText(row, column, serverNow());
  return <td class={column.isNumeric ? "n" : column.kind} title={text.length > 18 ? text : undefined}>{text}</td>;
}

export const RunRow = memo<Props>(function RunRow({ row, columns, at, isChosen, canChoose, onToggle }) {
  return (
    <tr aria-rowindex={at} class={isChosen ? "is-chosen" : undefined}>
      {canChoose && (
        <td class="choose"><input type="checkbox" aria-label={`Select ${row.run}`} checked={isChosen} onChange={() => onToggle(row.key)} /></td>
      )}
      {columns.map((column) => (column.kind === "run" ? (
        <th key={column.id} scope="row" class="run" title={row.run}>
          <a href={`#/job/${(row.list.find((job) => job.state === row.state) ?? row.list[0])?.id ?? 0}`}>{row.run}</a>
        </th>
      ) : <Cell key={column.id} row={row} column={column} />))}
    </tr>
  );
});
