// Jobs by state, each with its sign and word; pressed, it may filter by that state.
import { kStates } from "../model/states";
import type { Counts, StateName } from "../model/types";
import { Mark } from "./mark";

export function CountList({ counts, to }: { counts: Counts; to?: (state: StateName) => void }) {
  const there = kStates.filter((state) => counts[state]);
  if (there.length === 0) return null;
  return (
    <ul class="counts" aria-label="Jobs by state">
      {there.map((state) => (
        <li key={state}>
          {to ? (
            <button type="button" class="plain" title={`Show runs with a ${state} job`} onClick={() => to(state)}>
              <b class="num">{counts[state]?.toLocaleString("en-US")}</b> <Mark state={state} />
            </button>
          ) : <><b class="num">{counts[state]?.toLocaleString("en-US")}</b> <Mark state={state} /></>}
        </li>
      ))}
    </ul>
  );
}
