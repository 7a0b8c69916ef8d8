// Bars on lanes over time, as SVG: for what happened (a sweep) and for what is planned.  One stop for
// Tab; arrows go from bar to bar.  Bars are drawn again only when they move or change; live ones grow
// with the clock.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useNow } from "../live/live";
import { extent, neighbour, tickStep, ticks, type Bar, type LaneRow } from "../model/gantt";
import { LiveShape, Shape, type Look } from "./lane_bar";

export interface Drawn { look: Look; label: string; href: string | null; tip: string[] }
export interface LaneChartProps {
  title: string;
  lanes: readonly LaneRow[];
  bars: readonly Bar[];
  begin: number;
  end: number;
  now: number | null; // null: no line of now
  offset: number; // of local time from UTC, ms: where ticks stand
  axis: (at: number, step: number) => string;
  draw: (bar: Bar) => Drawn;
  notes?: ReadonlyMap<string, string>; // of a lane, by its name: why nothing may be on it
}

const kLeft = 64;
const kTop = 22;

function useWidth(): [(node: HTMLElement | null) => void, number] {
  const [width, set] = useState(0);
  const [node, setNode] = useState<HTMLElement | null>(null);
  useEffect(() => {
    if (!node) return undefined;
    const look = new ResizeObserver(() => set(Math.floor(node.clientWidth)));
    look.observe(node);
    set(Math.floor(node.clientWidth));
    return () => look.disconnect();
  }, [node]);
  return [setNode, width];
}

export function LaneChart(props: LaneChartProps) {
  const [box, boxWidth] = useWidth();
  const [focused, setFocused] = useState<string | null>(null);
  const [tip, setTip] = useState<{ key: string; x: number; y: number } | null>(null);
  const svg = useRef<SVGSVGElement>(null);
  const { lanes, bars, begin, end, draw } = props;
  const width = Math.max(300, boxWidth) - kLeft - 8;
  const rowHeight = lanes.length > 24 ? 16 : lanes.length > 12 ? 22 : 28;
  const tops = useMemo(() => {
    let y = kTop;
    return lanes.map((lane) => {
      const top = y;
      y += Math.max(rowHeight, lane.tracks * 10 + 4);
      return top;
    });
  }, [lanes, rowHeight]);
  const last = lanes.length - 1;
  const bottom = last < 0 ? kTop : (tops[last] ?? 0) + Math.max(rowHeight, (lanes[last]?.tracks ?? 1) * 10 + 4);
  const byKey = useMemo(() => new Map(bars.map((bar) => [bar.key, bar])), [bars]);
  const shownTip = tip ? byKey.get(tip.key) : undefined;
  const stop = focused !== null && byKey.has(focused) ? focused : (bars[0]?.key ?? null);
  const marks = boxWidth > 0 ? ticks(begin, end, Math.max(2, Math.floor(width / 90)), props.offset) : [];
  const step = tickStep(end - begin, Math.max(2, Math.floor(width / 90)));
  const keyOf = (target: EventTarget | null): string | null =>
    target instanceof Element ? (target.closest("[data-bar]")?.getAttribute("data-bar") ?? null) : null;

  const point = (event: MouseEvent) => {
    const key = keyOf(event.target);
    const frame = svg.current?.getBoundingClientRect();
    if (key === null || !frame) setTip(null);
    else setTip({ key, x: event.clientX - frame.left, y: event.clientY - frame.top });
  };
  const onFocus = (event: FocusEvent) => {
    const key = keyOf(event.target);
    const bar = key === null ? undefined : byKey.get(key);
    if (!bar) return;
    setFocused(bar.key);
    const at = extent(bar.start, bar.end ?? bar.start, { begin, end }, width);
    setTip({ key: bar.key, x: kLeft + at.x, y: (tops[bar.row] ?? 0) + 14 });
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") setTip(null);
    const from = byKey.get(keyOf(event.target) ?? "");
    const to = from ? neighbour(bars, from, event.key) : null;
    if (!to) return;
    event.preventDefault();
    svg.current?.querySelector<SVGElement>(`[data-bar="${to.key}"]`)?.focus();
  };

  // The same list again while only the tip moves: thousands of bars are not looked at then.
  const shapes = useMemo(() => bars.map((bar) => {
    const height = ((tops[bar.row + 1] ?? bottom) - (tops[bar.row] ?? 0) - 4) / bar.tracks;
    const y = (tops[bar.row] ?? 0) + 2 + bar.track * height;
    const { look, label, href, tip: words } = draw(bar);
    const common = {
      id: bar.key, left: kLeft, y, height: Math.max(4, height - (bar.tracks > 1 ? 1 : 0)), look: look.name, step: look.step,
      label, href, name: words.join(", "), isStop: bar.key === stop,
    };
    if (bar.end === null) {
      return <LiveShape key={bar.key} {...common} start={bar.start} expectedEnd={bar.expectedEnd} begin={begin} end={end} width={width} />;
    }
    const at = extent(bar.start, bar.end, { begin, end }, width);
    return <Shape key={bar.key} {...common} x={at.x} width={at.width} ghost={0} />;
  }), [bars, tops, bottom, begin, end, width, draw, stop]);

  return (
    <div class="chart" ref={box}>
      {boxWidth > 0 && (
        <svg
          ref={svg} width={width + kLeft + 8} height={bottom + 4} role="group" aria-label={props.title}
          onMouseMove={point} onMouseLeave={() => setTip(null)} onFocusIn={onFocus} onFocusOut={() => setTip(null)} onKeyDown={onKey}
        >
          {lanes.map((lane, i) => (
            <g key={lane.name}>
              <rect class={`lane-row ${i % 2 ? "odd" : ""}`} x={kLeft} y={tops[i]} width={width} height={(tops[i + 1] ?? bottom) - (tops[i] ?? 0)} />
              <text class="lane-name" x={kLeft - 8} y={((tops[i + 1] ?? bottom) + (tops[i] ?? 0)) / 2 + 4}>{lane.name}</text>
              {props.notes?.has(lane.name) && <text class="lane-note" x={kLeft + 6} y={((tops[i + 1] ?? bottom) + (tops[i] ?? 0)) / 2 + 4}>{props.notes.get(lane.name)}</text>}
            </g>
          ))}
          {marks.map((at) => {
            const x = kLeft + ((at - begin) / (end - begin)) * width;
            return (
              <g key={at} aria-hidden="true">
                <line class="tick" x1={x} x2={x} y1={kTop - 4} y2={bottom} />
                {x < kLeft + width - 20 && <text class="axis" x={x} y={kTop - 8}>{props.axis(at, step)}</text>}
              </g>
            );
          })}
          {shapes}
          {props.now !== null && <NowLine begin={begin} end={end} width={width} bottom={bottom} />}
        </svg>
      )}
      {shownTip && tip && (
        <div class="tip" role="tooltip" style={{ left: `${Math.min(tip.x + 12, Math.max(0, boxWidth - 250))}px`, top: `${tip.y + 16}px` }}>
          {draw(shownTip).tip.map((line, i) => <div key={i} class={i === 0 ? "first" : ""}>{line}</div>)}
        </div>
      )}
    </div>
  );
}

function NowLine({ begin, end, width, bottom }: { begin: number; end: number; width: number; bottom: number }) {
  const now = useNow();
  if (now < begin || now > end) return null;
  const x = kLeft + ((now - begin) / (end - begin)) * width;
  return (
    <g aria-hidden="true" class="now">
      <line x1={x} x2={x} y1={kTop - 2} y2={bottom} />
      <path d={`M${x - 4},${kTop - 6}h8l-4,6z`} />
    </g>
  );
}
