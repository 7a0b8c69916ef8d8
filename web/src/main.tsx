// Begins the page.
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/views.css";
import { App } from "./app";
import { begin } from "./live/live";
import { beginTheme } from "./live/theme";

beginTheme();
begin();
const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(<App />, root);
}
