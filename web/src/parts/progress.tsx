// How far a sweep is: a strip with a part for each tone.  The words beside it say the same.
import { countsText, isEnded, kStates, toneOf, total } from "../model/states";
import type { Counts } from "../model/types";

const kOrder = ["good", "bad", "over", "busy"] as const;

export function Progress({ counts }: { counts: Counts }) {
  const parts: Record<string, number> = {};
  for (const state of kStates) {
    const tone = toneOf(state) === "calm" ? (isEnded(state) ? "over" : "calm") : toneOf(state);
    parts[tone] = (parts[tone] ?? 0) + (counts[state] ?? 0);
  }
  const all = total(counts);
  return (
    <span class="progress" role="img" aria-label={countsText(counts)}>
      {all > 0 && kOrder.map((tone) => {
        const share = (100 * (parts[tone] ?? 0)) / all;
        return share > 0 ? <span key={tone} class={`part ${tone}`} style={{ width: `max(3px, ${share}%)` }} /> : null;
      })}
    </span>
  );
}
