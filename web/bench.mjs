// How quick the web page is at 1,000 runs, in Debian's chromium: medians and worst of what a person
// waits for, and of what the server takes.
//
//   bench/page [--pergpu build/release/pergpu] [--runs 1000] [--times 20]
//
// A frame of a screen with 60 Hz is 16.7 ms: `frames` says how many of those it is.
import { resolve, dirname } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const option = (name, otherwise) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : process.argv[at + 1];
};
if (process.argv.includes("--help")) {
  console.log("bench/page [--pergpu PROGRAM] [--runs 1000] [--times 20]");
  process.exit(0);
}
process.env.PERGPU_BIN = resolve(option("pergpu", `${root}/build/release/pergpu`));
const runs = Number(option("runs", 1000));
const times = Number(option("times", 20));
const { startServe } = await import("./browser/serve.mjs");
const { enter, openPage, startBrowser } = await import("./browser/page.mjs");

const kFrame = 1000 / 60;
const sorted = (list) => [...list].sort((a, b) => a - b);
const median = (list) => sorted(list)[Math.floor(list.length / 2)];
function tell(what, list) {
  const [mid, worst] = [median(list), Math.max(...list)];
  console.log(`${what.padEnd(58)} ${mid.toFixed(1).padStart(8)} ${worst.toFixed(1).padStart(8)} ${(mid / kFrame).toFixed(1).padStart(7)}`);
}

const serve = await startServe();
const browser = await startBrowser();
try {
  const seeds = Array.from({ length: runs }, (_, i) => i).join(", ");
  const sweep = await serve.submit("many", `[grid]\nseed = [${seeds}]\n[steps.train]\ncommand = "true"\nfake = { duration = "1h" }\n`, "--engine", "fake", "--lanes", "50");
  const page = await openPage(browser);
  await enter(page, serve.link);
  const url = `${serve.url}/#/sweep/${sweep.sweep_id}`;
  console.log(`${runs} runs, ${times} times`.padEnd(58), "  median    worst  frames");

  const opened = [];
  for (let i = 0; i < times; i += 1) {
    await page.goto("about:blank");
    const begin = performance.now();
    await page.goto(url);
    await page.waitForSelector(".run-table tbody th.run");
    opened.push(performance.now() - begin);
  }
  tell("page opened until the runs are there, ms", opened);

  // From the input to the end of the frame that shows what came of it.
  const click = async (selector) => page.evaluate(async (wanted) => {
    const begin = performance.now();
    document.querySelector(wanted).click();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - begin;
  }, selector);
  const type = async (text) => page.evaluate(async (words) => {
    const field = document.querySelector("#filter");
    const begin = performance.now();
    field.value = words;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - begin;
  }, text);
  const sorts = [];
  for (let i = 0; i < times; i += 1) sorts.push(await click('button[title="Sort by seed"]'));
  tell("a click on a column's head until it is drawn, ms", sorts);
  const filters = [];
  for (let i = 0; i < times; i += 1) filters.push(await type(`seed=${i}`));
  await type("");
  tell("a key in the filter until it is drawn, ms", filters);

  // In the order of the file again: rows that are out of sight are not drawn.
  await page.goto("about:blank");
  await page.goto(url);
  await page.waitForSelector(".run-table tbody th.run");

  // An action, the coordinator's disk, its watch period of 50 ms, the stream, the drawing.
  const live = [];
  for (let i = 0; i < times; i += 1) {
    const job = sweep.jobs[i];
    live.push(await page.evaluate(async ([id]) => {
      const begin = performance.now();
      await fetch("/api/actions/cancel", { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${localStorage.getItem("pergpu-session")}` }, body: JSON.stringify({ jobs: [id], kill: true }) });
      const link = `.run-table a[href="#/job/${id}"] .mark`;
      while (!/cancelled/.test(document.querySelector(link)?.textContent ?? "")) {
        await new Promise((done) => requestAnimationFrame(done));
      }
      return performance.now() - begin;
    }, [job]));
  }
  tell("a job cancelled until the page shows it, ms", live);

  const timed = async (path) => {
    const list = [];
    for (let i = 0; i < times; i += 1) {
      list.push(await page.evaluate(async (address) => {
        const begin = performance.now();
        await (await fetch(address, { headers: { Authorization: `Bearer ${localStorage.getItem("pergpu-session")}` } })).text();
        return performance.now() - begin;
      }, path));
    }
    return list;
  };
  tell("GET /api/hello, ms", await timed("/api/hello"));
  tell("GET /api/sweeps/N/history, ms", await timed(`/api/sweeps/${sweep.sweep_id}/history`));
  tell("GET /metrics, ms", await timed("/metrics"));
} finally {
  await browser.close();
  await serve.stop();
}
