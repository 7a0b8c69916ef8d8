// Which rows of a long list are drawn: those in sight and some beyond, in blocks, so that a small
// scroll changes nothing.

export interface Range { first: number; last: number } // last is exclusive

export function visibleRange(top: number, height: number, row: number, count: number, block = 20): Range {
  if (count <= 0) return { first: 0, last: 0 };
  const from = Math.max(0, Math.floor(top / row) - block / 2);
  const to = Math.ceil((top + height) / row) + block / 2;
  const first = Math.min(Math.floor(from / block) * block, Math.max(0, count - 1));
  return { first: Math.max(0, first), last: Math.min(count, Math.ceil(to / block) * block) };
}
