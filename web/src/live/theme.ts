// Light, dark, or as the system has it.  Charts on a canvas ask `themeChanged` when to draw again.
import { Value } from "./live";

export type Theme = "system" | "light" | "dark";
const kKey = "pergpu-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function stored(): Theme {
  try {
    const text = localStorage.getItem(kKey);
    return text === "light" || text === "dark" ? text : "system";
  } catch {
    return "system"; // storage is switched off
  }
}

export const theme = new Value<Theme>("system");
export const themeChanged = new Value<number>(0);

export function setTheme(to: Theme): void {
  if (to === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = to;
  try {
    localStorage.setItem(kKey, to);
  } catch {
    // It holds for this visit then.
  }
  theme.set(to);
  themeChanged.set(themeChanged.get() + 1);
}

export function beginTheme(): void {
  setTheme(stored());
  dark.addEventListener("change", () => themeChanged.set(themeChanged.get() + 1));
}

/** The value of a colour variable by now, as the canvas wants it. */
export function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
