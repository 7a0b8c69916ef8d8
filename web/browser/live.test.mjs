// What the page shows of jobs that really run: live, after a lost connection, filtered, sorted, cancelled.
import test, { after, before } from "node:test";
import assert from "node:assert/strict";
import { enter, openPage, startBrowser, until } from "./page.mjs";
import { startServe, startWay } from "./serve.mjs";

let serve;
let browser;
let page;
let thirteen;

before(async () => {
  serve = await startServe();
  browser = await startBrowser();
  page = await openPage(browser);
  await enter(page, serve.link);
  thirteen = await serve.submit("thirteen", `
[grid]
lr = [0.1, 0.01, 0.001]
seed = [1, 2, 10]
[steps.prepare]
once = true
command = "true"
[steps.train]
needs = ["prepare:all"]
shell = 'echo "{\\"step\\": 1, \\"loss\\": $PERGPU_PARAM_SEED}" >> "$PERGPU_METRICS"; test "$PERGPU_PARAM_SEED" != 2'
`);
  await serve.pergpu("wait", "thirteen").catch(() => {}); // some fail, on purpose
});

after(async () => {
  await browser?.close();
  await serve?.stop();
});

const stateOf = (p, id) => p.locator(`.run-table a[href="#/job/${id}"] .mark`).first().innerText();
const showsState = (p, id, state) => until(p, ([job, word]) =>
  [...document.querySelectorAll(`.run-table td a[href="#/job/${job}"] .mark`)].some((mark) => mark.textContent.includes(word)), [id, state]);
const runs = (p) => p.locator(".run-table tbody th.run").allInnerTexts();

test("a job's start and end are shown without a reload", async () => {
  const { sweep_id: sweep, jobs: [id] } = await serve.submit("wait", `[steps.train]\nshell = 'until test -e "${serve.file("go")}"; do sleep 0.05; done; echo finished'`);
  await page.goto(`${serve.url}/#/sweep/${sweep}`);
  await page.evaluate(() => { window.isSamePage = true; });
  await showsState(page, id, "running");
  serve.touch("go");
  await showsState(page, id, "done");
  assert.equal(await page.evaluate(() => window.isSamePage), true);
});

test("the log grows as it is written", async () => {
  const { jobs: [id] } = await serve.submit("log", `[steps.train]\nshell = 'printf "\\\\033[31mfirst\\\\033[0m <b>line</b>\\\\n"; until test -e "${serve.file("more")}"; do sleep 0.05; done; echo second line'`);
  await page.goto(`${serve.url}/#/job/${id}`);
  await until(page, () => document.querySelector("pre.log")?.textContent.includes("first <b>line</b>"));
  assert.equal(await page.locator("pre.log b").count(), 0, "text of a job is text");
  serve.touch("more");
  await until(page, () => document.querySelector("pre.log")?.textContent.includes("second line"));
  await until(page, () => document.querySelector(".state-line")?.textContent.includes("done"));
});

test("filter, sort and group; all of it survives a reload", async () => {
  await page.goto(`${serve.url}/#/sweep/${thirteen.sweep_id}`);
  await until(page, () => document.querySelectorAll(".run-table tbody th.run").length === 9);
  const seed = page.locator(".run-table thead").getByRole("button", { name: "seed", exact: true });
  await seed.click();
  await until(page, () => document.querySelector('th[aria-sort="ascending"]')?.textContent.startsWith("seed"));
  await seed.click();
  await until(page, () => document.querySelector('th[aria-sort="descending"]')?.textContent.startsWith("seed"));
  assert.match((await runs(page))[0], /seed=10/, "numbers by value: 10 is more than 2");
  await page.keyboard.press("/");
  await page.keyboard.type("train=done lr=0.1");
  await until(page, () => document.querySelectorAll(".run-table tbody th.run").length === 2);
  const shown = await runs(page);
  assert.match(page.url(), /sort=-seed/);
  await page.reload();
  await until(page, () => document.querySelectorAll(".run-table tbody th.run").length === 2);
  assert.deepEqual(await runs(page), shown);
  assert.equal(await page.locator("#filter").inputValue(), "train=done lr=0.1");
  await page.locator("#filter").fill("lr=[");
  await until(page, () => document.querySelector("#filter-says")?.textContent.includes("Invalid filter"));
  assert.equal((await runs(page)).length, 9, "a bad pattern filters nothing");
  await page.locator("#filter").fill("");
  await page.getByLabel("Group by").selectOption("lr");
  await until(page, () => document.querySelectorAll(".run-table tr.group").length === 3);
  await until(page, () => /loss/.test(document.querySelector(".run-table thead")?.textContent ?? ""));
});

test("the chart has every attempt, for the keyboard and as a table", async () => {
  await page.goto(`${serve.url}/#/sweep/${thirteen.sweep_id}`);
  await until(page, () => document.querySelectorAll(".chart [data-bar]").length === 10);
  assert.equal(await page.locator('.chart [data-bar][tabindex="0"]').count(), 1, "one stop for Tab");
  await page.locator('.chart [data-bar][tabindex="0"]').focus();
  await page.keyboard.press("ArrowRight");
  assert.match(await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? ""), /job \d+/);
  await page.keyboard.press("Enter");
  await until(page, () => location.hash.startsWith("#/job/"));
  await page.goto(`${serve.url}/#/sweep/${thirteen.sweep_id}?chart=table`);
  await until(page, () => document.querySelectorAll(".short tbody tr").length === 10);
});

test("what was typed just before one leaves is of no other view", async () => {
  await page.goto(`${serve.url}/#/sweep/${thirteen.sweep_id}`);
  await page.waitForSelector("#filter");
  // The page is busy until the filter is due: its timer and the event of the new address are there at once.
  await page.evaluate((job) => {
    const box = document.querySelector("#filter");
    box.value = "train=done";
    box.dispatchEvent(new Event("input", { bubbles: true }));
    location.hash = `#/job/${job}`;
    for (const end = performance.now() + 400; performance.now() < end;);
  }, thirteen.jobs[1]);
  await page.evaluate(() => new Promise((done) => setTimeout(done, 200))); // behind that timer
  await page.waitForSelector(".state-line");
  assert.ok(page.url().endsWith(`#/job/${thirteen.jobs[1]}`), page.url());
});

test("cancel asks first, and says what came of it", async () => {
  const { jobs: [id] } = await serve.submit("cancel", `[steps.train]\nshell = 'until test -e "${serve.file("never")}"; do sleep 0.05; done'`);
  await page.goto(`${serve.url}/#/job/${id}`);
  await until(page, () => document.querySelector(".state-line")?.textContent.includes("running"));
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("dialog").getByLabel("Kill at once").check();
  await page.getByRole("dialog").getByRole("button", { name: "Kill 1 job" }).click();
  await until(page, () => /1 job cancelled/.test(document.querySelector("#said")?.textContent ?? ""));
  await until(page, () => document.querySelector(".state-line")?.textContent.includes("cancelled"));
});

test("after a lost connection it says so, resumes, and has missed nothing", async () => {
  // This browser reaches the server by the way only, and the server does not notice.
  const other = await startServe();
  const port = Number(new URL(other.url).port);
  const way = await startWay(port);
  const farBrowser = await startBrowser(`--host-resolver-rules=MAP 127.0.0.1:${port} 127.0.0.1:${way.port}`);
  const far = await openPage(farBrowser);
  try {
    await enter(far, other.link);
    assert.ok(way.accepted() > 0, "it goes by the way");
    const { sweep_id: sweep, jobs: [id] } = await other.submit("drop", `[steps.train]\nshell = 'until test -e "${other.file("go")}"; do sleep 0.05; done'`);
    await far.goto(`${other.url}/#/sweep/${sweep}`);
    await showsState(far, id, "running");
    way.cut();
    await until(far, () => document.querySelector(".link")?.textContent === "reconnecting");
    other.touch("go");
    await other.pergpu("wait", String(id));
    assert.match(await stateOf(far, id), /running/, "nothing can have come through");
    way.open();
    await showsState(far, id, "done");
    await until(far, () => document.querySelector(".link")?.textContent === "live");
    assert.deepEqual(far.problems, []);
  } finally {
    await farBrowser.close();
    await way.stop();
    await other.stop();
  }
});

test("nothing the page does is against the policy, and nothing went wrong in it", () => {
  assert.deepEqual(page.problems, []);
});
