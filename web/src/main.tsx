// Begins the page.
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/views.css";
import { App } from "./app";
import { begin, say } from "./live/live";
import { enterByLink } from "./live/session";
import { beginTheme } from "./live/theme";

beginTheme();
void enterByLink().then((trouble) => {
  begin();
  if (trouble) say(trouble, true);
  const root = document.getElementById("app");
  if (!root) return;
  root.replaceChildren();
  render(<App />, root);
});
