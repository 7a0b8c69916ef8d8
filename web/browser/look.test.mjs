// Every view, light and dark, for everybody; a thousand runs; the report without a network.
import test, { after, before } from "node:test";
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { axe, enter, openPage, startBrowser, until } from "./page.mjs";
import { startServe } from "./serve.mjs";

let serve;
let browser;
let sweep;
let big;
let storageState; // with the session

before(async () => {
  serve = await startServe();
  browser = await startBrowser();
  sweep = await serve.submit("views", `
[grid]
lr = [0.1, 0.01]
[steps.train]
shell = 'echo "{\\"step\\": 1, \\"loss\\": 0.5}" >> "$PERGPU_METRICS"; echo hello; test "$PERGPU_PARAM_LR" = 0.1'
[steps.evaluate]
needs = ["train"]
shell = 'until test -e "${serve.file("never")}"; do sleep 0.05; done'
expect = "1m"
`);
  const seeds = Array.from({ length: 1000 }, (_, i) => i).join(", ");
  big = await serve.submit("big", `[grid]\nseed = [${seeds}]\n[steps.train]\ncommand = "true"\nfake = { duration = "1s" }\n`, "--engine", "fake", "--lanes", "50");
  const page = await openPage(browser);
  await enter(page, serve.link);
  storageState = await page.context().storageState();
  await page.context().close();
});

after(async () => {
  await browser?.close();
  await serve?.stop();
});

async function open(path, wait, options = {}) {
  const page = await openPage(browser, { storageState, ...options });
  await page.goto(`${serve.url}/${path}`);
  await page.waitForSelector(wait);
  return page;
}

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing, ${colorScheme}`, async () => {
    const page = await open("#/", ".sweeps", { colorScheme, bypassCSP: true });
    const views = [
      ["#/", ".sweeps"], [`#/sweep/${sweep.sweep_id}`, ".run-table tbody th"], [`#/sweep/${sweep.sweep_id}?group=lr&chart=table`, ".run-table .group"],
      [`#/job/${sweep.jobs[0]}`, "pre.log"], ["#/plan", "main h2"], ["#/gpus", "main .card, main .empty"],
    ];
    for (const [path, wait] of views) {
      await page.goto(`${serve.url}/${path}`);
      await page.waitForSelector(wait);
      assert.deepEqual(await axe(page), [], path);
    }
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    assert.deepEqual(await axe(page), [], "help");
    await page.context().close();
  });
}

test("nothing is wider than a telephone", async () => {
  const page = await open("#/", ".sweeps", { viewport: { width: 360, height: 740 } });
  for (const path of ["#/", `#/sweep/${sweep.sweep_id}`, `#/job/${sweep.jobs[0]}`, "#/plan", "#/gpus"]) {
    await page.goto(`${serve.url}/${path}`);
    await page.waitForSelector("h1");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360), path);
  }
  await page.context().close();
});

test("the chosen colours stay", async () => {
  const page = await open("#/", ".sweeps", { colorScheme: "light" });
  await page.getByRole("button", { name: /^Color theme/ }).click();
  await page.getByRole("button", { name: /^Color theme/ }).click();
  await page.reload();
  await page.waitForSelector(".sweeps");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.context().close();
});

test("a thousand runs: all are there, few are in the document, the last is reached", async () => {
  const page = await open(`#/sweep/${big.sweep_id}`, ".run-table tbody th");
  await until(page, () => document.querySelector("#filter-says")?.textContent.startsWith("1,000 runs"));
  assert.equal(await page.locator(".run-table").getAttribute("aria-rowcount"), "1001");
  assert.ok(await page.locator(".run-table tbody tr").count() < 150);
  await page.locator(".runs .scroll").evaluate((node) => { node.scrollTop = node.scrollHeight; });
  await until(page, () => /seed=999/.test([...document.querySelectorAll(".run-table tbody th.run")].pop()?.textContent ?? ""));
  await page.locator("#filter").fill("seed=77");
  await until(page, () => document.querySelectorAll(".run-table tbody th.run").length === 1);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the report opens from a file without a network", async () => {
  const file = serve.file("report.html");
  await serve.pergpu("report", String(sweep.sweep), "-o", file);
  const page = await openPage(browser, { offline: true });
  const asked = [];
  page.on("request", (one) => asked.push(one.url()));
  await page.goto(pathToFileURL(file).href);
  assert.match(await page.locator("h1").innerText(), /views/);
  assert.deepEqual(asked.filter((url) => !url.startsWith("file:") && !url.startsWith("data:")), []);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
