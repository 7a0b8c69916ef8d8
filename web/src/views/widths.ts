// Widths of the run table's columns, from the longest text of all rows: with rows that come and go as
// one scrolls, columns would jump otherwise.
import { serverNow } from "../live/api";
import type { Column } from "../model/columns";
import { cellText, type Row } from "../model/rows";

const kLetter = 7.3; // pixels, on average, of the table's letters
const kDigit = 7.9;
const kMost = 320;

export function columnWidths(columns: readonly Column[], rows: ReadonlyMap<string, Row>, extra: (column: Column) => string[]): number[] {
  const now = serverNow();
  return columns.map((column) => {
    let longest = 0;
    if (column.kind === "step") longest = 19;
    else if (column.kind === "state") longest = 11;
    else {
      for (const row of rows.values()) if (!row.isOnce) longest = Math.max(longest, cellText(row, column, now).length);
      for (const text of extra(column)) longest = Math.max(longest, text.length);
    }
    if (column.kind === "time") longest = Math.max(longest, 7);
    const content = longest * (column.isNumeric ? kDigit : kLetter);
    return Math.round(Math.min(kMost, Math.max(content, column.title.length * kLetter + 16) + 20));
  });
}
