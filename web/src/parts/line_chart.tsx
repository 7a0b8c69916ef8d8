// A chart of one value over time or steps, drawn by uPlot on a canvas; its words say what it shows.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { colour, themeChanged } from "../live/theme";
import { useValue } from "../live/live";
import { clock, when } from "../model/format";

export interface LineChartProps {
  title: string;
  words: string;
  x: number[];
  y: (number | null)[];
  band?: { least: (number | null)[]; most: (number | null)[] };
  isTime: boolean;
  text: (value: number) => string;
  floor?: number; // the axis reaches down to it
  isBytes?: boolean; // ticks at whole powers of two
  sync?: string; // charts of the same name show the same moment
}

const kHeight = 150;
const kPowers = Array.from({ length: 50 }, (_, i) => 2 ** i);

function options(p: LineChartProps, width: number): uPlot.Options {
  const ink = colour("--soft");
  const line = colour("--line");
  const stroke = colour("--busy");
  const axis: uPlot.Axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 }, font: "11px system-ui, sans-serif" };
  const value = (_: uPlot, v: number | null) => (v === null || v === undefined ? "–" : p.text(v));
  const series: uPlot.Series[] = [
    p.isTime ? { label: "time" } : { label: "step" },
    { label: p.band ? "mean" : p.title, stroke, width: 1.5, value, points: { show: p.x.length < 3 ? true : undefined, size: 5 } as uPlot.Series.Points },
  ];
  if (p.band) {
    series.push({ label: "most", stroke: "transparent", value, points: { show: false } }, { label: "least", stroke: "transparent", value, points: { show: false } });
  }
  const made: uPlot.Options = {
    width, height: kHeight, series, ms: 1e-3, legend: { show: true, live: true },
    scales: {
      x: { time: p.isTime },
      y: { range: (_, min, max) => {
        const low = Math.min(p.floor ?? min, min);
        const pad = (max - low || Math.abs(max) || 1) * 0.06;
        return [p.floor !== undefined && low >= p.floor ? low : low - pad, max + pad];
      } },
    },
    axes: [
      p.isTime ? { ...axis, values: (_, at, _axis, _space, step) => at.map((s) => (step < 60 ? clock(s * 1000) : when(s * 1000, step < 86_400 ? s * 1000 : 0))) } : axis,
      { ...axis, size: 62, values: (_, at) => at.map((v) => p.text(v)), ...(p.isBytes ? { incrs: kPowers } : {}) },
    ],
    cursor: p.sync ? { sync: { key: p.sync }, drag: { x: false, y: false } } : { drag: { x: false, y: false } },
  };
  if (p.band) made.bands = [{ series: [2, 3], fill: stroke.replace("rgb(", "rgba(").replace(")", ", 0.18)") }];
  return made;
}

export function LineChart(p: LineChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const look = useValue(themeChanged, (n) => n);
  const data = (p.band ? [p.x, p.y, p.band.most, p.band.least] : [p.x, p.y]) as uPlot.AlignedData;
  useEffect(() => {
    const node = box.current;
    if (!node) return undefined;
    const made = new uPlot(options(p, Math.max(200, node.clientWidth)), data, node);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: Math.max(200, node.clientWidth), height: kHeight }));
    resized.observe(node);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [look, p.isTime, p.band === undefined]);
  useEffect(() => plot.current?.setData(data), [p.x, p.y]);
  return (
    <figure class="plot">
      <figcaption><b>{p.title}</b> <span class="soft">{p.words}</span></figcaption>
      <div ref={box} role="img" aria-label={`${p.title}: ${p.words}`} />
    </figure>
  );
}
