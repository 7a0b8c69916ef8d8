// The runs of a sweep.  Rows have one height, and only those in sight are in the document.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Column } from "../model/columns";
import type { Group } from "../model/groups";
import { plural } from "../model/format";
import type { SetQuery } from "../live/live";
import { joinList } from "../model/route";
import type { Row } from "../model/rows";
import { visibleRange } from "../model/virtual";
import { Actions } from "../parts/actions";
import { useValue, hello } from "../live/live";
import { GroupRow, groupCellText } from "./group_row";
import { RunRow } from "./run_row";
import type { Table } from "./sweep_data";
import { TableTools } from "./table_tools";
import { columnWidths } from "./widths";

export const kRowHeight = 33; // as in views.css

type Item = { kind: "group"; group: Group } | { kind: "row"; row: Row };

interface Props {
  table: Table;
  filter: string;
  cols: string[];
  group: string;
  shut: string[];
  setQuery: SetQuery;
}

function itemsOf(table: Table, shut: readonly string[]): Item[] {
  if (!table.groups) return table.shown.map((row) => ({ kind: "row", row }));
  return table.groups.flatMap((group): Item[] => [
    { kind: "group", group },
    ...(shut.includes(group.value) ? [] : group.rows.map((row): Item => ({ kind: "row", row }))),
  ]);
}

function Head({ column, sort, onSort }: { column: Column; sort: Table["sort"]; onSort: (id: string) => void }) {
  const isSorted = sort.id === column.id;
  return (
    <th scope="col" class={`${column.kind} ${column.isNumeric ? "n" : ""}`} aria-sort={isSorted ? (sort.isFalling ? "descending" : "ascending") : undefined}>
      <button type="button" onClick={() => onSort(column.id)} title={`Sort by ${column.title}`}>
        {column.title}<span class="arrow" aria-hidden="true">{isSorted ? (sort.isFalling ? "▼" : "▲") : ""}</span>
      </button>
    </th>
  );
}

export function RunTable({ table, filter, cols, group, shut, setQuery }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 600 });
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const isReadonly = useValue(hello, (h) => h?.readonly ?? true);
  const items = useMemo(() => itemsOf(table, shut), [table.shown, table.groups, shut.join("\0")]);
  // Not with each change of a job: columns that move about are hard to read.
  const widths = useMemo(() => columnWidths(table.columns, table.rows, (column) => (table.groups ?? []).map((g) => groupCellText(g, column))), [table.columns, table.set, table.rows.size, table.groupBy]);
  const { first, last } = visibleRange(scroll.top, scroll.height, kRowHeight, items.length);
  const look = useCallback(() => {
    const node = box.current;
    if (node) setScroll((old) => {
      const top = Math.floor(node.scrollTop / (kRowHeight * 5)) * kRowHeight * 5;
      return old.top === top && old.height === node.clientHeight ? old : { top, height: node.clientHeight };
    });
  }, []);
  useEffect(() => {
    look();
    const resized = new ResizeObserver(look);
    if (box.current) resized.observe(box.current);
    return () => resized.disconnect();
  }, []);

  const toggle = useCallback((key: string) => setChosen((old) => {
    const next = new Set(old);
    if (!next.delete(key)) next.add(key);
    return next;
  }), []);
  const isAllChosen = table.shown.length > 0 && table.shown.every((row) => chosen.has(row.key));
  const toggleAll = () => setChosen(isAllChosen ? new Set() : new Set(table.shown.map((row) => row.key)));
  const onSort = useCallback((id: string) => {
    const { sort } = table;
    setQuery({ sort: sort.id !== id ? id : sort.isFalling ? null : `-${id}` });
  }, [table.sort]);
  const onShut = useCallback((value: string) => {
    const next = shut.includes(value) ? shut.filter((v) => v !== value) : [...shut, value];
    setQuery({ shut: next.length > 0 ? joinList(next) : null });
  }, [shut.join("\0")]);

  const jobs = useMemo(() => [...chosen].flatMap((key) => [...(table.rows.get(key)?.list ?? [])]), [chosen, table.rows]);
  const chosenRows = [...chosen].filter((key) => table.rows.has(key)).length;
  const span = table.columns.length + (isReadonly ? 0 : 1);
  return (
    <section class="card runs" aria-labelledby="runs-title">
      <TableTools table={table} filter={filter} cols={cols} group={group} setQuery={setQuery} />
      <div class="scroll" ref={box} onScroll={look} role="group" aria-labelledby="runs-title" tabIndex={0}>
        <table class="run-table" aria-rowcount={items.length + 1} style={{ width: `max(100%, ${widths.reduce((a, b) => a + b, isReadonly ? 0 : 36)}px)` }}>
          <caption class="hidden">{plural(table.shown.length, "run")} with state, parameters and metrics</caption>
          <colgroup>
            {!isReadonly && <col style={{ width: "36px" }} />}
            {widths.map((width, i) => <col key={table.columns[i]?.id} style={{ width: `${width}px` }} />)}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              {!isReadonly && <th scope="col" class="choose"><input type="checkbox" aria-label="Select all shown runs" checked={isAllChosen} onChange={toggleAll} /></th>}
              {table.columns.map((column) => <Head key={column.id} column={column} sort={table.sort} onSort={onSort} />)}
            </tr>
          </thead>
          <tbody>
            {first > 0 && <tr class="space" aria-hidden="true"><td colSpan={span} style={{ height: `${first * kRowHeight}px` }} /></tr>}
            {items.slice(first, last).map((item, i) => (item.kind === "row" ? (
              <RunRow
                key={item.row.key} row={item.row} columns={table.columns} at={first + i + 2}
                isChosen={chosen.has(item.row.key)} canChoose={!isReadonly} onToggle={toggle}
              />
            ) : (
              <GroupRow
                key={`group:${item.group.value}`} group={item.group} columns={table.columns} name={table.groupBy?.title ?? ""}
                at={first + i + 2} isShut={shut.includes(item.group.value)} hasChoice={!isReadonly} onShut={onShut}
              />
            )))}
            {last < items.length && <tr class="space" aria-hidden="true"><td colSpan={span} style={{ height: `${(items.length - last) * kRowHeight}px` }} /></tr>}
          </tbody>
        </table>
        {items.length === 0 && <p class="empty">{filter ? "No run matches the filter." : "No runs."}</p>}
      </div>
      {chosenRows > 0 && (
        <div class="chosen">
          <span>{plural(chosenRows, "run")} selected, {plural(jobs.length, "job")}</span>
          <Actions jobs={jobs} />
          <button type="button" class="plain" onClick={() => setChosen(new Set())}>Clear</button>
        </div>
      )}
    </section>
  );
}
