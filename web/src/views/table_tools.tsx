// Above the run table: filter, grouping, columns.
import { useEffect, useRef, useState } from "preact/hooks";
import type { SetQuery } from "../live/live";
import { plural } from "../model/format";
import { joinList } from "../model/route";
import type { Table } from "./sweep_data";

const kTypingPause = 150;

interface Props {
  table: Table;
  filter: string;
  cols: string[];
  group: string;
  setQuery: SetQuery;
}

function FilterBox({ table, filter, setQuery }: Pick<Props, "table" | "filter" | "setQuery">) {
  const [text, setText] = useState(filter);
  const timer = useRef(0);
  const sent = useRef(filter);
  useEffect(() => {
    if (filter === sent.current) return; // what comes back of one's own typing
    sent.current = filter;
    setText(filter);
  }, [filter]);
  const type = (value: string) => {
    setText(value);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      sent.current = value;
      setQuery({ filter: value });
    }, kTypingPause);
  };
  const isBad = table.filterError !== null;
  return (
    <span class="filter">
      <label for="filter">Filter</label>
      <input
        id="filter" type="search" value={text} placeholder="failed  lr=0.1  loss<0.4" autocomplete="off" spellcheck={false}
        aria-invalid={isBad} aria-describedby="filter-says"
        onInput={(e) => type(e.currentTarget.value)}
        onKeyDown={(e) => { if (e.key === "Escape" && text !== "") { e.preventDefault(); type(""); } }}
      />
      <span id="filter-says" class={isBad ? "bad-text" : "soft"} aria-live="polite">
        {isBad ? `Invalid filter, showing all runs: ${table.filterError}`
          : filter ? `${table.shown.length} of ${plural(count(table), "run")}` : plural(count(table), "run")}
      </span>
    </span>
  );
}

const count = (table: Table): number => table.rows.size - table.once.length;

function ColumnChoice({ table, cols, setQuery }: Pick<Props, "table" | "cols" | "setQuery">) {
  const shown = new Set(table.columns.map((column) => column.id));
  const isAll = cols.length === 1 && cols[0] === "all";
  const toggle = (id: string) => {
    if (!shown.delete(id)) shown.add(id);
    const ids = table.set.all.filter((column) => shown.has(column.id)).map((column) => column.id);
    setQuery({ cols: joinList(ids) });
  };
  return (
    <details class="pop">
      <summary>Columns</summary>
      <div class="pop-body">
        <label class="check"><input type="checkbox" checked={isAll} onChange={() => setQuery({ cols: isAll ? null : "all" })} /> <b>all, including columns with the same value in all runs</b></label>
        {table.set.all.filter((column) => column.kind !== "run").map((column) => (
          <label key={column.id} class="check">
            <input type="checkbox" checked={shown.has(column.id)} onChange={() => toggle(column.id)} /> {column.title}
            {column.kind === "param" || column.kind === "metric" ? <span class="soft">{column.kind === "param" ? "parameter" : "metric"}</span> : null}
          </label>
        ))}
        {cols.length > 0 && <button type="button" class="small" onClick={() => setQuery({ cols: null })}>Reset</button>}
      </div>
    </details>
  );
}

export function TableTools({ table, filter, cols, group, setQuery }: Props) {
  const groupable = table.set.all.filter((column) => column.kind === "param" || column.kind === "state");
  return (
    <div class="bar-line">
      <h2 id="runs-title">Runs</h2>
      <FilterBox table={table} filter={filter} setQuery={setQuery} />
      <span class="grow" />
      <label class="pick">Group by{" "}
        <select value={table.groupBy ? group : ""} onChange={(e) => setQuery({ group: e.currentTarget.value, shut: null })}>
          <option value="">nothing</option>
          {groupable.map((column) => <option key={column.id} value={column.id}>{column.title}</option>)}
        </select>
      </label>
      <ColumnChoice table={table} cols={cols} setQuery={setQuery} />
    </div>
  );
}
