// The head of every view: where one is, whether it is live, how it looks.
import { hello, link, useRoute, useValue } from "../live/live";
import { setTheme, theme, type Theme } from "../live/theme";
import type { Link } from "../live/stream";

const kLinkWords: Record<Link, string> = {
  connecting: "connecting", live: "live", reconnecting: "reconnecting", paused: "paused", "logged-out": "logged out",
};
const kNext: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const kThemeSigns: Record<Theme, string> = { system: "◐", light: "☀", dark: "☾" };

function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#0b3d73" /><rect x="6" y="7" width="13" height="4.5" rx="1.5" fill="#7cc4ff" />
      <rect x="11" y="13.75" width="15" height="4.5" rx="1.5" fill="#fff" /><rect x="6" y="20.5" width="9" height="4.5" rx="1.5" fill="#6fdd8b" />
      <rect x="17" y="20.5" width="9" height="4.5" rx="1.5" fill="#ffb86b" />
    </svg>
  );
}

export function Header({ onHelp }: { onHelp: () => void }) {
  const { view } = useRoute();
  const state = useValue(link, (l) => l);
  const about = useValue(hello, (h) => h);
  const look = useValue(theme, (t) => t);
  const tab = (to: string, name: string, isHere: boolean) => (
    <a href={to} aria-current={isHere ? "page" : undefined}>{name}</a>
  );
  return (
    <header class="top">
      <a class="brand" href="#/" aria-label="pergpu, overview"><Logo /><span>pergpu</span></a>
      <nav aria-label="Views">
        {tab("#/", "Overview", view === "overview")}
        {tab("#/plan", "Plan", view === "plan")}
        {tab("#/gpus", "GPUs", view === "gpus")}
      </nav>
      <span class="grow" />
      {about && <span class="host soft" title={`${about.home}, pergpu ${about.version}`}>{about.host}{about.readonly ? ", read only" : ""}</span>}
      <span class={`link ${state}`} role="status">{kLinkWords[state]}</span>
      <button type="button" class="icon" aria-label={`Color theme: ${look}. Change to ${kNext[look]}`} title={`Color theme: ${look}`} onClick={() => setTheme(kNext[look])}>
        <span aria-hidden="true">{kThemeSigns[look]}</span>
      </button>
      <button type="button" class="icon" aria-label="Help and keys" title="Help (?)" onClick={onHelp}><span aria-hidden="true">?</span></button>
    </header>
  );
}
