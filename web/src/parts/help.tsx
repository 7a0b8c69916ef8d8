// The help of `?`.
import { Dialog } from "./dialog";

const kKeys: [string, string][] = [
  ["/", "go to the filter"],
  ["?", "show this help"],
  ["Tab", "go to the next control; the lane chart counts as one control"],
  ["← → ↑ ↓", "in the lane chart: go to the next bar or lane"],
  ["Enter", "on a bar: open its job"],
  ["Esc", "close the dialog"],
];
const kFilters: [string, string][] = [
  ["edm", "rows where a cell matches this regular expression"],
  ["method=^edm$", "rows where this column matches"],
  ["lr=0.1", "rows where this column has this number"],
  ["loss<0.4 seed>=2", "rows where both conditions hold"],
  ["!failed", "rows where no cell matches"],
];

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Help" onClose={onClose}>
      <h3>Keys</h3>
      <dl class="keys">{kKeys.map(([key, words]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{words}</dd></div>)}</dl>
      <h3>Filter</h3>
      <dl class="keys">{kFilters.map(([key, words]) => <div key={key}><dt><code>{key}</code></dt><dd>{words}</dd></div>)}</dl>
      <p class="soft">The address contains the current view, so you can bookmark or reload it. Times are in this browser's time zone.</p>
      <div class="buttons"><button type="button" onClick={onClose}>Close</button></div>
    </Dialog>
  );
}
