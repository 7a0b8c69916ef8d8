// The help of `?`.
import { Dialog } from "./dialog";

const kKeys: [string, string][] = [
  ["/", "to the filter"],
  ["?", "this help"],
  ["Tab", "to the next control; in the chart of lanes, one stop for all bars"],
  ["← → ↑ ↓", "in the chart: to the bar beside, on the lane above or below"],
  ["Enter", "on a bar: to its job"],
  ["Esc", "closes what is open"],
];
const kFilters: [string, string][] = [
  ["edm", "rows where a cell matches this regular expression"],
  ["method=^edm$", "the same for one column"],
  ["lr=0.1", "a number is compared as a number"],
  ["loss<0.4 seed>=2", "two conditions; both have to hold"],
  ["!failed", "rows where no cell matches"],
];

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Help" onClose={onClose}>
      <h3>Keys</h3>
      <dl class="keys">{kKeys.map(([key, words]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{words}</dd></div>)}</dl>
      <h3>Filter</h3>
      <dl class="keys">{kFilters.map(([key, words]) => <div key={key}><dt><code>{key}</code></dt><dd>{words}</dd></div>)}</dl>
      <p class="soft">What you look at stands in the address: a link or a reload shows the same. Times are those of this browser.</p>
      <div class="buttons"><button type="button" onClick={onClose}>Close</button></div>
    </Dialog>
  );
}
