// What lets this browser in.  The link that `pergpu serve` prints has a token for one use; the server
// changes it for a session, which lies in the storage of this origin, to which the port belongs, and
// goes with each request.  A cookie would go to every port of the host, to other users' servers, too.
const kKey = "pergpu-session";
let own = ""; // where storage is switched off it holds for this visit

export function session(): string {
  try {
    return localStorage.getItem(kKey) ?? own;
  } catch {
    return own;
  }
}

function keep(text: string): void {
  own = text;
  try {
    localStorage.setItem(kKey, text);
  } catch {
    // See `own`.
  }
}

/** The field that each request carries. */
export const credentials = (): Record<string, string> => (session() ? { Authorization: `Bearer ${session()}` } : {});

/** Where the address is a link's, uses it.  What went wrong, in words; "": nothing. */
export async function enterByLink(): Promise<string> {
  if (location.pathname !== "/login") return "";
  const token = new URLSearchParams(location.search).get("token") ?? "";
  history.replaceState(null, "", `/${location.hash}`); // the link is no use any more
  try {
    const response = await fetch("/api/login", {
      method: "POST", cache: "no-store", credentials: "omit",
      headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }),
    });
    const reply = (await response.json()) as { session?: string; error?: string };
    if (reply.session) keep(reply.session);
    return reply.session ? "" : (reply.error ?? `The server returned status ${response.status}.`);
  } catch {
    return "pergpu serve does not answer.";
  }
}

/** Another tab has used a link. */
export function onSession(listener: () => void): void {
  window.addEventListener("storage", (event) => {
    if (event.key === kKey && event.newValue) listener();
  });
}
