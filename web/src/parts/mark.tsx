// A state, told by its word and a sign; colour comes third.
import { toneOf } from "../model/states";
import type { StateName } from "../model/types";

const kSigns: Record<string, string> = {
  queued: "○", held: "◇", starting: "▷", running: "▶", stopping: "■",
  done: "●", failed: "✖", timeout: "✖", lost: "✖", cancelled: "⊘", skipped: "⊘",
};

export function Mark({ state }: { state: StateName }) {
  return (
    <span class={`mark ${toneOf(state)}`}>
      <span class="sign" aria-hidden="true">{kSigns[state] ?? "○"}</span>
      {state}
    </span>
  );
}

const kLaneTones: Record<string, string> = {
  free: "calm", busy: "busy", leased: "warn", foreign: "warn", dirty: "warn",
  quarantined: "bad", unusable: "bad", unknown: "warn",
};
const kLaneSigns: Record<string, string> = { calm: "○", busy: "▶", warn: "▲", bad: "✖" };

/** State of a GPU or lane. */
export function LaneMark({ state }: { state: string }) {
  const tone = kLaneTones[state] ?? "calm";
  return (
    <span class={`mark ${tone}`}>
      <span class="sign" aria-hidden="true">{kLaneSigns[tone]}</span>
      {state}
    </span>
  );
}

/** What an attempt ended as. */
export function ClassMark({ name }: { name: string | null }) {
  if (name === null) return <span class="mark busy"><span class="sign" aria-hidden="true">▶</span>live</span>;
  const tone = name === "ok" ? "good" : name === "cancelled" || name === "requeue" ? "calm" : "bad";
  return (
    <span class={`mark ${tone}`}>
      <span class="sign" aria-hidden="true">{tone === "good" ? "●" : tone === "calm" ? "⊘" : "✖"}</span>
      {name}
    </span>
  );
}
