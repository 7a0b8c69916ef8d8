// What `tmux capture-pane -e` gives, as a page: text with colours, bold, dim and reverse.
const kColours = [
  "#2e3436", "#e05561", "#8cc265", "#d18f52", "#4aa5f0", "#c162de", "#42b3c2", "#d7dae0",
  "#6b7280", "#ff616e", "#a5e075", "#f0a45d", "#4dc4ff", "#de73ff", "#4cd1e0", "#ffffff",
];
const kInk = "#d7dae0";
const kPaper = "#1b1d23";

function colour256(n) {
  if (n < 16) return kColours[n];
  if (n > 231) return `rgb(${Array(3).fill(8 + (n - 232) * 10).join(",")})`;
  const part = (unit) => [0, 95, 135, 175, 215, 255][Math.floor((n - 16) / unit) % 6];
  return `rgb(${part(36)},${part(6)},${part(1)})`;
}

function apply(style, codes) {
  for (let i = 0; i < codes.length; i += 1) {
    const code = codes[i];
    if (code === 0) Object.assign(style, { ink: null, paper: null, bold: false, dim: false, reverse: false });
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 7) style.reverse = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 27) style.reverse = false;
    else if (code >= 30 && code <= 37) style.ink = kColours[code - 30];
    else if (code >= 90 && code <= 97) style.ink = kColours[code - 82];
    else if (code >= 40 && code <= 47) style.paper = kColours[code - 40];
    else if (code === 39) style.ink = null;
    else if (code === 49) style.paper = null;
    else if ((code === 38 || code === 48) && codes[i + 1] === 5) {
      style[code === 38 ? "ink" : "paper"] = colour256(codes[i + 2]);
      i += 2;
    }
  }
}

const escaped = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);

function span(text, { ink, paper, bold, dim, reverse }) {
  const [front, back] = reverse ? [paper ?? kPaper, ink ?? kInk] : [ink ?? kInk, paper ?? "transparent"];
  return `<span style="color:${front};background:${back};${bold ? "font-weight:bold;" : ""}${dim ? "opacity:.65;" : ""}">${escaped(text)}</span>`;
}

export function htmlOfTerminal(text) {
  const style = { ink: null, paper: null, bold: false, dim: false, reverse: false };
  let body = "";
  for (const part of text.replace(/\x1b[()][0-9A-B]|[\x0e\x0f]/g, "").split(/(\x1b\[[0-9;]*m)/)) {
    const codes = /^\x1b\[([0-9;]*)m$/.exec(part);
    if (codes) apply(style, codes[1].split(";").map(Number));
    else if (part !== "") body += span(part, style);
  }
  return `<!doctype html><meta charset="utf-8"><body style="margin:0"><pre style="margin:0;padding:12px;display:inline-block;background:${kPaper};font:14px/1.25 'DejaVu Sans Mono',monospace">${body}</pre>`;
}
