// One bar of a lane chart.  Its step is told by colour and pattern, its end by the way it is filled
// and framed, and both by its words.
import { useNow } from "../live/live";
import { extent } from "../model/gantt";
import { memo } from "./memo";

/** name: ok, bad, gone, live, plan or other. */
export interface Look { name: string; step: number }

interface Common {
  id: string;
  left: number;
  y: number;
  height: number;
  look: string;
  step: number;
  label: string;
  href: string | null;
  name: string;
  isStop: boolean;
}

export const kPatterns = 6;

export function Patterns() {
  return (
    <defs>
      <pattern id="p1" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="weave" width="2" height="7" /></pattern>
      <pattern id="p2" width="7" height="7" patternUnits="userSpaceOnUse"><circle class="weave" cx="3.5" cy="3.5" r="1.4" /></pattern>
      <pattern id="p3" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="weave" width="6" height="1.6" y="2" /></pattern>
      <pattern id="p4" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="weave" width="1.6" height="6" x="2" /></pattern>
      <pattern id="p5" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect class="weave" width="1.6" height="8" /><rect class="weave" width="8" height="1.6" /></pattern>
      <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect class="hatch1" width="6" height="6" /><rect class="hatch0" width="3" height="6" />
      </pattern>
    </defs>
  );
}

interface ShapeProps extends Common { x: number; width: number; ghost: number }

/** ghost: how far beyond its end it is expected to reach, in pixels. */
export const Shape = memo<ShapeProps>(function Shape(p) {
  const x = p.left + p.x;
  const step = p.step % kPatterns;
  const isPlain = p.look === "ok" || p.look === "live" || p.look === "plan";
  const parts = (
    <>
      {p.ghost > 0 && <rect class="ghost" x={x + p.width} y={p.y + 1} width={p.ghost} height={p.height - 2} rx="2" />}
      <rect class={`bar ${p.look} ${isPlain ? `s${step}` : ""}`} x={x} y={p.y} width={p.width} height={p.height} rx={p.width > 6 ? 2 : 0} />
      {isPlain && step > 0 && p.width > 5 && <rect class="over" fill={`url(#p${step})`} x={x} y={p.y} width={p.width} height={p.height} rx="2" />}
      {p.label !== "" && p.height >= 12 && p.width > p.label.length * 6.2 + 8 && (
        <>
          {step > 0 && isPlain && <rect class={`plate s${step}`} x={x + 2} y={p.y + p.height / 2 - 7} width={p.label.length * 6.2 + 5} height="14" rx="2" />}
          <text class={`on ${p.look}`} x={x + 4} y={p.y + p.height / 2 + 4}>{p.label}</text>
        </>
      )}
    </>
  );
  if (p.href === null) return <g data-bar={p.id} tabIndex={p.isStop ? 0 : -1} role="img" aria-label={p.name} class="stop">{parts}</g>;
  return <a data-bar={p.id} href={p.href} tabIndex={p.isStop ? 0 : -1} aria-label={p.name} class="stop">{parts}</a>;
});

interface LiveProps extends Common { start: number; expectedEnd: number | null; begin: number; end: number; width: number }

export function LiveShape({ start, expectedEnd, begin, end, width, ...common }: LiveProps) {
  const now = useNow();
  const at = extent(start, Math.max(now, start), { begin, end }, width);
  const until = expectedEnd !== null && expectedEnd > now ? extent(start, expectedEnd, { begin, end }, width).width - at.width : 0;
  return <Shape {...common} x={at.x} width={at.width} ghost={Math.max(0, until)} />;
}
