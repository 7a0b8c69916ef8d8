// Which view, and everything about it, stands after the # of the address, so that a link or a reload
// shows the same: #/sweep/3?sort=-loss&filter=lr%3D0.1&group=lr.

export type View = "overview" | "sweep" | "job" | "plan" | "gpus" | "unknown";
export interface Route { view: View; id: number | null; query: Record<string, string> }

const kHome: Route = { view: "overview", id: null, query: {} };

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#/, "");
  const mark = text.indexOf("?");
  const path = (mark < 0 ? text : text.slice(0, mark)).split("/").filter((part) => part !== "");
  const query: Record<string, string> = {};
  if (mark >= 0) {
    for (const [key, value] of new URLSearchParams(text.slice(mark + 1))) query[key] = value;
  }
  const [head, tail, more] = path;
  if (head === undefined) return { ...kHome, query };
  if ((head === "plan" || head === "gpus") && tail === undefined) return { view: head, id: null, query };
  if ((head === "sweep" || head === "job") && more === undefined && /^[1-9]\d{0,15}$/.test(tail ?? "")) {
    return { view: head, id: Number(tail), query };
  }
  return { view: "unknown", id: null, query };
}

/** Keys with empty values are left out; the others stay in the order of their names. */
export function formatRoute(route: Route): string {
  const path = route.view === "overview" || route.view === "unknown" ? "" : route.id === null ? route.view : `${route.view}/${route.id}`;
  const query = new URLSearchParams();
  for (const key of Object.keys(route.query).sort()) {
    if (route.query[key]) query.set(key, route.query[key] as string);
  }
  const text = query.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

/** The same view with some of its query changed; null takes a key away. */
export function withQuery(route: Route, changes: Record<string, string | null>): Route {
  const query = { ...route.query };
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") delete query[key];
    else query[key] = value;
  }
  return { ...route, query };
}

/** Lists in one value: "a,b"; a comma in a name is "\,". */
export const joinList = (items: readonly string[]): string =>
  items.map((item) => item.replace(/[\\,]/g, "\\$&")).join(",");

export function splitList(text: string | undefined): string[] {
  if (!text) return [];
  const items: string[] = [];
  let item = "";
  for (let i = 0; i < text.length; i += 1) {
    if (text[i] === ",") {
      items.push(item);
      item = "";
      continue;
    }
    if (text[i] === "\\" && i + 1 < text.length) i += 1;
    item += text[i];
  }
  return [...items, item];
}
