// Debian's chromium for a test, and what axe says of a page.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { kDeadline } from "./serve.mjs";

const require = createRequire(import.meta.url);
const kFlags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export const startBrowser = (...flags) =>
  chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: [...kFlags, ...flags], timeout: kDeadline });

/** A page whose errors, those of the policy too, are kept in page.problems. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(kDeadline);
  context.setDefaultNavigationTimeout(kDeadline);
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && /Content.Security.Policy|Refused/.test(message.text())) page.problems.push(message.text());
  });
  return page;
}

/** Opens a link that pergpu serve printed; then this browser is let in. */
export async function enter(page, link) {
  await page.goto(link);
  await until(page, () => location.pathname === "/" && localStorage.getItem("pergpu-session") !== null);
}

/** Findings of axe as short texts.  The context needs bypassCSP: axe is a script from elsewhere. */
export async function axe(page) {
  await page.evaluate(readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"));
  return page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document);
    return violations.map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 200)} ${v.nodes[0].failureSummary}`);
  });
}

/** Waits until `look`, a function for the page, is true; the deadline is that of the context. */
export const until = (page, look, argument) => page.waitForFunction(look, argument, { polling: "raf" });
