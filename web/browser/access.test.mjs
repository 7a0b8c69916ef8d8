// Who may do what: without the link, by another name, from another page, read only.
import test, { after, before } from "node:test";
import assert from "node:assert/strict";
import { request } from "node:http";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { enter, openPage, startBrowser, until } from "./page.mjs";
import { startServe } from "./serve.mjs";

let serve;
let browser;
let secret;
let job;

before(async () => {
  serve = await startServe();
  browser = await startBrowser();
  secret = readFileSync(join(serve.folder, "home", "web-token"), "utf8").trim();
  const made = await serve.submit("held", `[steps.train]\nshell = 'until test -e "${serve.file("never")}"; do sleep 0.05; done'`);
  job = made.jobs[0];
});

after(async () => {
  await browser?.close();
  await serve?.stop();
});

/** fetch sets Host and Origin itself; here they are what the test says. */
function ask(method, path, headers = {}, body = "") {
  const { hostname, port } = new URL(serve.url);
  return new Promise((done, fail) => {
    const sent = request({ hostname, port, method, path, headers }, (reply) => {
      let text = "";
      reply.on("data", (part) => { text += part; });
      reply.on("end", () => done({ status: reply.statusCode, headers: reply.headers, text }));
    });
    sent.on("error", fail);
    sent.end(body);
  });
}

const json = { "Content-Type": "application/json" };
const bearer = () => ({ Authorization: `Bearer ${secret}` });
const cancel = (headers) => ask("POST", "/api/actions/cancel", { ...json, ...headers }, JSON.stringify({ jobs: [job], kill: false }));
const stateNow = async () => JSON.parse((await ask("GET", `/api/jobs/${job}`, bearer())).text).state;

test("without a token nothing is told and nothing is done", async () => {
  assert.equal((await ask("GET", "/api/hello")).status, 401);
  assert.equal((await cancel({})).status, 401);
  assert.equal((await cancel({ Authorization: "Bearer 00ff" })).status, 401);
  assert.notEqual(await stateNow(), "cancelled");
  const page = await openPage(browser);
  await page.goto(serve.url);
  await until(page, () => /open the last link/i.test(document.querySelector(".banners")?.textContent ?? ""));
  await page.context().close();
});

test("a link is good for once, and gives no cookie", async () => {
  const page = await openPage(browser);
  await enter(page, serve.link);
  assert.equal(page.url(), `${serve.url}/`);
  await until(page, () => document.querySelector(".link")?.textContent === "live");
  assert.deepEqual(await page.context().cookies(), []);
  assert.ok(!(await page.evaluate(() => JSON.stringify(localStorage))).includes(secret), "the secret of programs stays in its file");
  await page.context().close();
  const other = await openPage(browser);
  await other.goto(serve.link);
  await until(other, () => /has been used/.test(document.querySelector("#said")?.textContent ?? ""));
  assert.equal(await other.evaluate(() => localStorage.getItem("pergpu-session")), null);
  await other.context().close();
});

test("another name in Host is refused", async () => {
  assert.equal((await ask("GET", "/api/hello", { ...bearer(), Host: "evil.example" })).status, 403);
});

test("from another page neither POST nor DELETE gets through", async () => {
  const origin = { Origin: "http://evil.example", ...bearer() };
  assert.equal((await cancel(origin)).status, 403);
  assert.equal((await ask("DELETE", `/api/jobs/${job}`, origin)).status, 403);
  assert.equal((await ask("DELETE", `/api/jobs/${job}`, bearer())).status, 405);
  assert.notEqual(await stateNow(), "cancelled");
});

test("answers bring the policy, and the page loads nothing from elsewhere", async () => {
  const reply = await ask("GET", "/");
  assert.equal(reply.status, 200);
  assert.match(String(reply.headers["content-security-policy"]), /default-src 'none'/);
  assert.doesNotMatch(String(reply.headers["content-security-policy"]), /unsafe/);
});

test("with the token a job is cancelled", async () => {
  const reply = await cancel(bearer());
  assert.equal(reply.status, 200, reply.text);
  assert.deepEqual(JSON.parse(reply.text).changed, [job]);
});

test("read only: no buttons, and no way around them", async () => {
  const quiet = await startServe({ options: ["--readonly"] });
  const page = await openPage(browser);
  try {
    const { jobs: [id] } = await quiet.submit("quiet", `[steps.train]\ncommand = "true"`);
    await quiet.pergpu("wait", String(id));
    await enter(page, quiet.link);
    await page.goto(`${quiet.url}/#/job/${id}`);
    await until(page, () => document.querySelector(".state-line")?.textContent.includes("done"));
    await until(page, () => document.querySelector(".host")?.textContent.includes("read only"));
    assert.equal(await page.locator(".actions").count(), 0);
    const status = await page.evaluate(async (n) => (await fetch("/api/actions/retry", {
      method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${localStorage.getItem("pergpu-session")}` },
      body: JSON.stringify({ jobs: [n], kill: false }),
    })).status, id);
    assert.equal(status, 403);
  } finally {
    await page.context().close();
    await quiet.stop();
  }
});
