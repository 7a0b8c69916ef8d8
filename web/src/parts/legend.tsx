// What colours, patterns and frames of bars mean.
import { kPatterns } from "./lane_bar";

function Key({ look, step, word }: { look: string; step: number; word: string }) {
  const n = step % kPatterns;
  return (
    <span class="key">
      <svg width="26" height="13" aria-hidden="true">
        {look === "ghost" ? <rect class="ghost" x="1" y="1" width="24" height="11" rx="2" />
          : <rect class={`bar ${look} ${step >= 0 ? `s${n}` : ""}`} x="1" y="1" width="24" height="11" rx="2" />}
        {step > 0 && n > 0 && <rect class="over" fill={`url(#p${n})`} x="1" y="1" width="24" height="11" rx="2" />}
      </svg>
      {word}
    </span>
  );
}

/** onlySteps: of a plan, where nothing has ended yet; isPlan: with the bars of other sweeps. */
export function Legend({ steps, isPlan = false, onlySteps = false }: { steps: string[]; isPlan?: boolean; onlySteps?: boolean }) {
  return (
    <span class="legend">
      {steps.map((step, i) => <Key key={step} look="ok" step={i} word={step} />)}
      {isPlan && <Key look="other" step={-1} word="other sweeps" />}
      {!onlySteps && (
        <>
          <Key look="bad" step={-1} word="failed" />
          <Key look="gone" step={-1} word="cancelled" />
          <Key look="live s0" step={-1} word="live" />
          <Key look="ghost" step={-1} word="expected" />
        </>
      )}
    </span>
  );
}
