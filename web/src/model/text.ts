// Texts of jobs made safe and plain: control sequences out, lines that were written over taken as a
// terminal would show them; and arguments quoted for a shell.

// CSI … , OSC … BEL or ST, other escapes; then what is left of control characters but \n, \t and \r.
const kSequences = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|\x9b[0-?]*[ -/]*[@-~]/g;
const kControls = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

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
