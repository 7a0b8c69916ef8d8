// Natural order: numbers by value wherever they stand in a text, so that run-2 is before run-10.
// What is missing goes last, whichever way one sorts.

const kNumber = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const kParts = /(\d+)/;

export function asNumber(value: unknown): number | null {
  if (typeof value === "number") return Number.isNaN(value) ? null : value;
  if (typeof value !== "string") return null;
  const text = value.trim();
  return kNumber.test(text) ? Number(text) : null;
}

const isMissing = (v: unknown): boolean => v === null || v === undefined || v === "" || Number.isNaN(v);

function compareTexts(a: string, b: string): number {
  const as = a.split(kParts);
  const bs = b.split(kParts);
  for (let i = 0; i < Math.min(as.length, bs.length); i += 1) {
    const x = as[i] ?? "";
    const y = bs[i] ?? "";
    if (x === y) continue;
    if (i % 2 === 1) {
      const difference = Number(x) - Number(y);
      if (difference !== 0) return difference;
      return x.length - y.length;
    }
    const folded = x.toLowerCase() < y.toLowerCase() ? -1 : x.toLowerCase() > y.toLowerCase() ? 1 : 0;
    return folded !== 0 ? folded : x < y ? -1 : 1;
  }
  return as.length - bs.length;
}

/** Numbers come before texts. */
export function compareNatural(a: unknown, b: unknown): number {
  const x = asNumber(a);
  const y = asNumber(b);
  if (x !== null && y !== null) return x < y ? -1 : x > y ? 1 : 0;
  if (x !== null) return -1;
  if (y !== null) return 1;
  return compareTexts(String(a), String(b));
}

/** Stable; missing values stay last when falling. */
export function sortBy<T>(items: readonly T[], keyOf: (item: T) => unknown, isFalling = false): T[] {
  const keyed = items.map((item) => ({ item, key: keyOf(item) }));
  keyed.sort((a, b) => {
    const none = Number(isMissing(a.key)) - Number(isMissing(b.key));
    if (none !== 0 || isMissing(a.key)) return none;
    const order = compareNatural(a.key, b.key);
    return isFalling ? -order : order;
  });
  return keyed.map((k) => k.item);
}
