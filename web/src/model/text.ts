// Texts of jobs made safe and plain: control sequences out, lines that were written over taken as a
// terminal would show them; and arguments quoted for a shell.

// CSI … , OSC … BEL or ST, other escapes; then what is left of control characters but \n, \t and \r.
const kSequences = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|\x9b[0-?]*[ -/]*[@-~]/g;
const kControls = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

// Marks that reorder or hide text ("trojan source"), as is_deceptive() of src/view/text/escape.cc has them.
const kMarks = /[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

/** JSON with such marks, in whose strings they are then visible: `\u202e`. */
export function visibleMarks(json: string): string {
  const show = (mark: string) => `\\\\u${(mark.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`;
  return json.replace(kMarks, show);
}

export function plainText(text: string): string {
  const clean = text.replace(kSequences, "").replace(/\r+\n/g, "\n").replace(kControls, "");
  if (!clean.includes("\r")) return clean;
  return clean.split("\n").map((line) => {
    const at = line.replace(/\r+$/, "").lastIndexOf("\r");
    return at < 0 ? line.replace(/\r+$/, "") : line.slice(at + 1).replace(/\r+$/, "");
  }).join("\n");
}

/** The last `limit` characters, from the begin of a line. */
export function tailOf(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const cut = text.slice(text.length - limit);
  const line = cut.indexOf("\n");
  return line < 0 ? cut : cut.slice(line + 1);
}

export function shellQuote(argument: string): string {
  // A placeholder ({lr}, {train.out}) needs no quotes.
  if (/^(?:[A-Za-z0-9_@%+=:,./-]|\{[A-Za-z_]\w*(?:\.\w+)?\})+$/.test(argument)) return argument;
  return `'${argument.replace(/'/g, `'\\''`)}'`;
}

export const shellLine = (argv: readonly string[]): string => argv.map(shellQuote).join(" ");
