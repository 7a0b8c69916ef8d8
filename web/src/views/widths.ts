// Widths of the run table's columns, from the longest text of all rows: with rows that come and go as
// one scrolls, columns would jump otherwise.
import { serverNow } from "../live/api";
import type { Column } from "../model/columns";
import { cellText, type Row } from "../model/rows";

const kMost = 340;
const kMostNarrow = 150; // of the run on a telephone: the rest has to be seen, too
const kFonts = { cell: "14px system-ui, sans-serif", head: "600 14px system-ui, sans-serif" };
const canvas = document.createElement("canvas").getContext("2d");

function widthOf(text: string, font: keyof typeof kFonts): number {
  if (!canvas) return text.length * 8;
  canvas.font = kFonts[font];
  return canvas.measureText(text).width;
}

/** The longest text by letters is taken for the widest: near enough, and one is measured, not all. */
function longestOf(column: Column, rows: ReadonlyMap<string, Row>, extra: readonly string[], now: number): string {
  if (column.kind === "step") return "▶ cancelled 59m59s";
  if (column.kind === "state") return "▶ cancelled";
  let longest = column.kind === "time" ? "59m59s" : column.kind === "reason" ? "waits for a lane that is free" : "";
  for (const row of rows.values()) {
    if (row.isOnce) continue;
    const text = cellText(row, column, now);
    if (text.length > longest.length) longest = text;
  }
  for (const text of extra) if (text.length > longest.length) longest = text;
  return longest;
}

export function columnWidths(columns: readonly Column[], rows: ReadonlyMap<string, Row>, extra: (column: Column) => string[]): number[] {
  const now = serverNow();
  const most = (column: Column) => (column.kind === "run" && window.innerWidth < 600 ? kMostNarrow : kMost);
  return columns.map((column) => {
    const content = widthOf(longestOf(column, rows, extra(column), now), "cell");
    return Math.ceil(Math.min(most(column), Math.max(content, widthOf(column.title, "head") + 14)) + 24);
  });
}
