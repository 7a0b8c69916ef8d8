// The images of docs/images/: the thirteen models run once, and pergpu is looked at a third of the way
// and at the end.  Called by tools/screenshots.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { enter, openPage, startBrowser } from "./browser/page.mjs";
import { startServe } from "./browser/serve.mjs";
import { htmlOfTerminal } from "./terminal_html.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const images = join(root, "docs/images");
const bin = resolve(process.env.PERGPU_BIN);
const kLongest = 60 * 60 * 1000;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function waitUntil(happened, what) {
  const end = Date.now() + kLongest;
  for (;;) {
    const value = await happened();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await pause(500);
  }
}

const isOver = (job) => !["queued", "held", "starting", "running", "stopping"].includes(job.state);

/** `pergpu top` on a terminal of this size, as text with its colours. */
async function captureTop(home, columns, rows) {
  const tmux = (...args) => execFileSync("tmux", ["-L", "pergpu-images", "-f", "/dev/null", ...args], { encoding: "utf8" });
  tmux("new-session", "-d", "-x", String(columns), "-y", String(rows), "-e", `PERGPU_HOME=${home}`, "-e", "LANG=C.UTF-8", `${bin} top`);
  try {
    const capture = () => tmux("capture-pane", "-p", "-e");
    await waitUntil(() => /thirteen/.test(capture()), "a row of top");
    await pause(12_000); // the sparklines are of what top itself has seen
    return capture();
  } finally {
    tmux("kill-server");
  }
}

const serve = await startServe();
const browser = await startBrowser();
try {
  // A copy, so that no image shows where somebody keeps pergpu.
  cpSync(join(root, "examples/thirteen"), join(serve.folder, "thirteen"), { recursive: true, filter: (path) => !path.endsWith("/runs") });
  const sweep = JSON.parse(await serve.pergpu("submit", "thirteen/thirteen.toml", "--lanes", "8", "--json"));
  const jobs = async () => JSON.parse(await serve.pergpu("ps", "-a", "--json")).jobs;
  mkdirSync(images, { recursive: true });
  const shoot = async (page, name, options = {}) => {
    await page.screenshot({ path: join(images, `${name}.png`), ...options });
    await page.context().close();
  };

  const first = await openPage(browser);
  await enter(first, serve.link);
  const storageState = await first.context().storageState();
  const open = async (path, wait, colorScheme = "light") => {
    const page = await openPage(browser, { storageState, colorScheme, viewport: { width: 1280, height: 860 } });
    await page.goto(`${serve.url}/${path}`);
    await page.waitForSelector(wait);
    await pause(1500); // curves are drawn when their data have come
    return page;
  };

  await waitUntil(async () => (await jobs()).filter(isOver).length * 3 >= sweep.jobs.length, "a third of the jobs");
  await shoot(await open("#/", ".sweeps"), "overview-light");
  for (const scheme of ["light", "dark"]) {
    await shoot(await open(`#/sweep/${sweep.sweep_id}`, ".run-table tbody th", scheme), `sweep-${scheme}`);
  }
  const running = (await jobs()).find((job) => job.state === "running" && job.step === "train" && job.duration_s > 8);
  await shoot(await open(`#/job/${(running ?? (await jobs())[0]).id}`, "pre.log"), "job-light", { fullPage: true });
  await shoot(await open("#/plan", "main h2"), "plan-light");

  const terminal = await openPage(browser, { viewport: { width: 1100, height: 700 } });
  await terminal.setContent(htmlOfTerminal(await captureTop(join(serve.folder, "home"), 120, 36)));
  await terminal.locator("pre").screenshot({ path: join(images, "top.png") });

  await waitUntil(async () => (await jobs()).every(isOver), "the end");
  await serve.pergpu("report", "-o", "report.html");
  const report = await openPage(browser, { viewport: { width: 1280, height: 1000 }, colorScheme: "light" });
  await report.goto(pathToFileURL(serve.file("report.html")).href);
  await shoot(report, "report");
} finally {
  await browser.close();
  await serve.stop();
}
