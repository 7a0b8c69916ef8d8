// The head of a group of runs: its value, how its runs are, and what their numbers come to.
import type { Column } from "../model/columns";
import { duration, number, plural } from "../model/format";
import type { Group } from "../model/groups";
import { countsText } from "../model/states";
import { memo } from "../parts/memo";

interface Props {
  group: Group;
  columns: readonly Column[];
  name: string;
  at: number;
  isShut: boolean;
  hasChoice: boolean;
  onShut: (value: string) => void;
}

/** "0.41 (0.38 – 0.47)": the mean, the least and the most. */
export function groupCellText(group: Group, column: Column): string {
  const of = group.aggregates.get(column.id);
  if (!of) return "";
  const text = (v: number) => (column.kind === "time" ? duration(v) : number(v, 3));
  return of.count === 1 ? text(of.mean) : `${text(of.mean)} (${text(of.min)} – ${text(of.max)})`;
}

export const GroupRow = memo<Props>(function GroupRow({ group, columns, name, at, isShut, hasChoice, onShut }) {
  const firstNumber = columns.findIndex((column, i) => i > 0 && group.aggregates.has(column.id));
  const headSpan = (firstNumber < 0 ? columns.length : firstNumber) + (hasChoice ? 1 : 0);
  return (
    <tr class="group" aria-rowindex={at}>
      <th scope="rowgroup" colSpan={headSpan}>
        <button type="button" class="plain" aria-expanded={!isShut} onClick={() => onShut(group.value)}>
          <span aria-hidden="true">{isShut ? "▸" : "▾"}</span> {name} = {group.value === "" ? "(none)" : group.value}
        </button>
        <span class="soft"> {plural(group.rows.length, "run")}: {countsText(group.counts)}</span>
      </th>
      {firstNumber >= 0 && columns.slice(firstNumber).map((column) => {
        const of = group.aggregates.get(column.id);
        return (
          <td key={column.id} class="n" title={of ? `mean, min and max of ${of.count}` : undefined}>
            {groupCellText(group, column)}
          </td>
        );
      })}
    </tr>
  );
});
