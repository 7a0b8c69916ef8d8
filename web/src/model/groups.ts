// Rows in groups of equal values of one column, with what the numbers of each group come to.
import type { Column } from "./columns";
import { compareNatural } from "./order";
import { cellValue, type Row } from "./rows";
import { asNumber } from "./order";
import { countStates } from "./states";
import type { Counts } from "./types";

export interface Aggregate { count: number; mean: number; min: number; max: number }
export interface Group { value: string; rows: Row[]; counts: Counts; aggregates: Map<string, Aggregate> }

export function aggregate(values: Iterable<unknown>): Aggregate | null {
  let count = 0;
  let sum = 0;
  let min = Infinity;
  let max = -Infinity;
  for (const value of values) {
    const n = asNumber(value);
    if (n === null || !Number.isFinite(n)) continue;
    count += 1;
    sum += n;
    min = Math.min(min, n);
    max = Math.max(max, n);
  }
  return count === 0 ? null : { count, mean: sum / count, min, max };
}

/** Groups in natural order of their values; rows keep the order they come in. */
export function groupRows(rows: readonly Row[], by: Column, numeric: readonly Column[], now: number): Group[] {
  const byValue = new Map<string, Row[]>();
  for (const row of rows) {
    const value = cellValue(row, by, now);
    const text = value === null || value === undefined ? "" : String(value);
    const list = byValue.get(text);
    if (list) list.push(row);
    else byValue.set(text, [row]);
  }
  const values = [...byValue.keys()].sort((a, b) => Number(a === "") - Number(b === "") || compareNatural(a, b));
  return values.map((value) => {
    const members = byValue.get(value) ?? [];
    const aggregates = new Map<string, Aggregate>();
    for (const column of numeric) {
      const result = aggregate(members.map((row) => cellValue(row, column, now)));
      if (result) aggregates.set(column.id, result);
    }
    return { value, rows: members, counts: countStates(members.map((row) => row.state)), aggregates };
  });
}
