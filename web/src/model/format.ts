// Values as people read them.  Unknown is "–", never 0.

export const kUnknown = "–";

export function parseTime(text: string | null | undefined): number | null {
  if (!text) return null;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? null : ms;
}

/** "0.4s", "42s", "3m12s", "2h05m", "3d4h" */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return kUnknown;
  const s = Math.max(0, seconds);
  if (s < 9.95) return `${s.toFixed(1)}s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole}s`;
  const two = (n: number) => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60 * 24) return `${Math.floor(minutes / 60)}h${two(minutes % 60)}m`;
  const hours = Math.floor(minutes / 60);
  return `${Math.floor(hours / 24)}d${hours % 24}h`;
}

/** As duration(), in whole seconds: for what ticks. */
export function ticking(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  return whole < 10 ? `${whole}s` : duration(whole);
}

/** Of a whole number of seconds, exactly and short: "30s", "2m", "1m30s", "1h", "1h30m", "2d" */
export function span(seconds: number): string {
  const whole = Math.round(seconds);
  const units: [number, string][] = [[86_400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  let rest = whole;
  let text = "";
  for (const [size, name] of units) {
    const n = Math.floor(rest / size);
    if (n > 0) text += `${n}${name}`;
    rest -= n * size;
  }
  return text || "0s";
}

/** Of a span that only roughly is so: "~3m" */
export function roughly(seconds: number): string {
  const s = Math.max(0, seconds);
  if (s < 60) return `${Math.max(1, Math.round(s))}s`;
  if (s < 3600) return `${Math.round(s / 60)}m`;
  return duration(Math.round(s / 60) * 60);
}

export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined || !Number.isFinite(n)) return kUnknown;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = n;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

/** A number with at most `digits` that count: 0.4123, 1.2e-5, 12000. */
export function number(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return kUnknown;
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) {
    return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  }
  return String(Number(value.toPrecision(digits)));
}

export const percent = (value: number | null | undefined): string =>
  value === null || value === undefined ? kUnknown : `${Math.round(value)} %`;

/** A parameter's or metric's value as text. */
export function valueText(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (typeof value === "number") return number(value, 6);
  return JSON.stringify(value);
}

const clockOf = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const shortClockOf = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const dayOf = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });
const fullOf = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

export const clock = (ms: number): string => clockOf.format(ms);
export const fullTime = (ms: number): string => fullOf.format(ms);

/** "14:05", with the day where it is not today. */
export function when(ms: number, now: number): string {
  const sameDay = new Date(ms).toDateString() === new Date(now).toDateString();
  return sameDay ? shortClockOf.format(ms) : `${dayOf.format(ms)} ${shortClockOf.format(ms)}`;
}

export const plural = (n: number, word: string): string =>
  `${n.toLocaleString("en-US")} ${word}${n === 1 ? "" : /(s|sh|ch|x)$/.test(word) ? "es" : "s"}`;
