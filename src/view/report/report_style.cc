// Colors are variables, so that the dark theme is a list of other values.  A state is shown by its
// word, failed bars by a hatch: color alone says nothing.
#include "view/report/report_style.h"

namespace pergpu::view {

const std::string_view kReportStyle = R"css(
:root { color-scheme: light dark; --ink: #1c2128; --soft: #57606a; --paper: #ffffff; --line: #d0d7de;
  --head: #f3f5f7; --link: #0b57a8; --good: #19692c; --bad: #b3261e; --busy: #0b57a8; --calm: #57606a;
  --failed0: #b3261e; --failed1: #ffd9d6; --other: #8c959f; --edge: #1c2128; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9da7b1; --paper: #14171c;
  --line: #3a424c; --head: #1e232a; --link: #79b8ff; --good: #6fdd8b; --bad: #ff8f87; --busy: #79b8ff;
  --calm: #9da7b1; --failed0: #b3261e; --failed1: #ffd9d6; --other: #6e7781; --edge: #e6edf3; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 1rem; color: var(--ink); background: var(--paper);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1rem 0 .2rem; overflow-wrap: anywhere; }
a { color: var(--link); }
nav a { margin-right: 1rem; }
.soft { color: var(--soft); }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; padding: 0; margin: 1rem 0; list-style: none; }
.tiles li { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .8rem; min-width: 8rem; }
.tiles b { display: block; font-size: 1.25rem; }
.scroll { overflow-x: auto; margin: .5rem 0 1rem; }
table { border-collapse: collapse; font-size: .875rem; }
caption { text-align: left; color: var(--soft); padding: .2rem 0; }
th, td { border: 1px solid var(--line); padding: .2rem .5rem; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
thead th { background: var(--head); white-space: nowrap; }
td { min-width: 3rem; max-width: 32rem; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th button { all: unset; cursor: pointer; }
th button:focus-visible { outline: 2px solid var(--link); }
th[aria-sort=ascending] button::after { content: " \25b2"; }
th[aria-sort=descending] button::after { content: " \25bc"; }
.mark { white-space: nowrap; }
.mark::before { content: "\25cf "; }
.mark.good { color: var(--good); }
.mark.bad { color: var(--bad); font-weight: 600; }
.mark.bad::before { content: "\2716 "; }
.mark.busy { color: var(--busy); }
.mark.busy::before { content: "\25b6 "; }
.mark.calm { color: var(--calm); }
.mark.calm::before { content: "\25cb "; }
pre { background: var(--head); border: 1px solid var(--line); padding: .5rem; overflow-x: auto;
  font-size: .8125rem; margin: .3rem 0; }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
svg text.axis { fill: var(--soft); text-anchor: middle; }
svg text.axis.y { text-anchor: end; }
svg.gantt { width: 100%; min-width: 800px; height: auto; }
svg .lane { font-size: 12px; }
svg .share { fill: var(--soft); }
svg text.on { fill: #ffffff; font-size: 10px; pointer-events: none; }
svg .tick { stroke: var(--line); }
.bar { stroke: var(--paper); stroke-width: .5; }
.bar.s0 { fill: #2b6cb0; } .bar.s1 { fill: #6b46c1; } .bar.s2 { fill: #0f766e; }
.bar.s3 { fill: #9a3412; } .bar.s4 { fill: #3f6212; } .bar.s5 { fill: #a21caf; }
.bar.failed { fill: url(#hatch); stroke: var(--failed0); stroke-width: 1; }
.bar.other { fill: var(--other); }
.bar.live { stroke: var(--edge); stroke-width: 1.5; stroke-dasharray: 3 2; }
.hatch0 { fill: var(--failed0); } .hatch1 { fill: var(--failed1); }
.heat { fill: #d9480f; } .heat.h5 { fill: var(--failed0); }
.h0 { fill-opacity: .15; } .h1 { fill-opacity: .35; } .h2 { fill-opacity: .55; } .h3 { fill-opacity: .75; }
.legend .key { margin-right: 1.2rem; white-space: nowrap; }
.plots { display: flex; flex-wrap: wrap; gap: .5rem; }
figure { margin: 0; width: 240px; }
figcaption { font-size: .8125rem; overflow-wrap: anywhere; }
svg .frame { fill: none; stroke: var(--line); }
svg .dot { fill: #2b6cb0; fill-opacity: .75; stroke: var(--paper); stroke-width: .5; }
@media print { nav, th button::after { display: none; } }
)css";

const std::string_view kReportScript = R"js(
"use strict";
// Sorts a table by a column when its head is pressed; again: the other way round.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.order ?? cell.textContent;
    return text.trim() !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  };
  const compare = (a, b) => {
    if (a === "" || b === "") return a === b ? 0 : a === "" ? 1 : -1;
    if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
    return typeof a === "number" ? -1 : 1;
  };
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const falling = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [keyOf(row, column), row]);
      rows.sort((a, b) => (falling ? compare(b[0], a[0]) : compare(a[0], b[0])));
      for (const pair of rows) body.append(pair[1]);
    });
  });
}
)js";

const std::string_view kReportPolicy =
    "default-src 'none'; "
    "style-src 'sha256-xUGuNYMsrFzxjxkw1TECHMhccnD/2GKwnSuj2Gc51xk='; "
    "script-src 'sha256-TJxKhhqjyewLcvGx28ZjxSGDuuBG0WdIc2YG7Zr+OWU='; "
    "base-uri 'none'; form-action 'none'";

}  // namespace pergpu::view
