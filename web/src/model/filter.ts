// The filter of a table.  Words that all have to match: `PATTERN` in any cell, `COLUMN=PATTERN` in one,
// `COLUMN<NUMBER` (also > <= >=), `!` in front: must not.  Patterns are regular expressions without
// regard to capitals; a plain number after = means the number (lr=0.1 is not 0.15).  Spaces: "in quotes".
import { asNumber } from "./order";

export type Cells = (column: string) => unknown; // undefined: no such column
export type Test = (cells: Cells, all: () => readonly string[]) => boolean;
export interface Filter { test: Test; error: string | null }

const kWord = /(?:[^\s"]|"[^"]*")+/g;
const kTerm = /^(!?)([^=<>"!]+)(=|<=|>=|<|>)(.*)$/s;
const everything: Test = () => true;

function textOf(value: unknown): string {
  return value === null || value === undefined ? "" : String(value);
}

function pattern(text: string): RegExp {
  return new RegExp(text, "i");
}

function columnTest(column: string, sign: string, text: string): Test {
  const wanted = asNumber(text);
  if (sign !== "=") {
    if (wanted === null) throw new Error(`${column}${sign} needs a number after it`);
    return (cells) => {
      const value = asNumber(cells(column));
      if (value === null) return false;
      switch (sign) {
        case "<": return value < wanted;
        case ">": return value > wanted;
        case "<=": return value <= wanted;
        default: return value >= wanted;
      }
    };
  }
  const expression = pattern(text);
  return (cells) => {
    const value = cells(column);
    const has = asNumber(value);
    return wanted !== null && has !== null ? has === wanted : expression.test(textOf(value));
  };
}

/** "; did you mean loss?": a column that begins like it, or has it within. */
function nearColumn(name: string, columns: ReadonlySet<string>): string {
  const wanted = name.toLowerCase();
  const all = [...columns];
  const near = all.find((column) => column.toLowerCase().startsWith(wanted))
    ?? all.find((column) => column.toLowerCase().includes(wanted) || wanted.includes(column.toLowerCase()));
  return near === undefined ? "" : `; did you mean ${near}?`;
}

function termTest(word: string, columns: ReadonlySet<string>): Test {
  const bare = word.replace(/"/g, "");
  const parts = kTerm.exec(bare);
  if (parts) {
    const [, not, column, sign, text] = parts as unknown as [string, string, string, string, string];
    if (columns.has(column)) {
      const test = columnTest(column, sign, text);
      return not ? (cells, all) => !test(cells, all) : test;
    }
    // `=` may be part of what a cell says (`model=mlp`); a comparison needs its column.
    if (sign !== "=") throw new Error(`no column ${column}${nearColumn(column, columns)}`);
  }
  const isNot = bare.startsWith("!") && bare.length > 1;
  const expression = pattern(isNot ? bare.slice(1) : bare);
  return (_cells, all) => all().some((cell) => expression.test(cell)) !== isNot;
}

/** A bad pattern filters nothing, and `error` says what is wrong with it. */
export function parseFilter(text: string, columns: ReadonlySet<string>): Filter {
  const words = text.match(kWord) ?? [];
  if (words.length === 0) return { test: everything, error: null };
  try {
    const tests = words.map((word) => termTest(word, columns));
    return { test: (cells, all) => tests.every((test) => test(cells, all)), error: null };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { test: everything, error: why.replace(/^Invalid regular expression: /, "") };
  }
}
