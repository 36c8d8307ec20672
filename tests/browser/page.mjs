// The page /ui in Chromium, as its tests and the screenshots use it.

import { chromium } from "playwright-core";

export const VIEWS = ["ask", "compare", "why", "memory", "tenants", "keys", "audit", "service"];
export const QUESTION = "When is the wedding?";
const WAIT_MS = 30_000;

export function launched() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
}

/** The part of the page that is the view, since views stay where they were when others are shown. */
export function shown(page) {
  return page.locator("main > div:not([hidden])");
}

/** Opens a view of a tenant in a context of its own; `answers` takes the place of those of the service, by RPC. */
export async function opened(browser, address, { tenant, view = "ask", width = 1280, scheme = "light", answers = {} }) {
  const context = await browser.newContext({ viewport: { width, height: width < 600 ? 800 : 860 }, colorScheme: scheme, timezoneId: "UTC" });
  context.setDefaultTimeout(WAIT_MS);
  for (const [rpc, json] of Object.entries(answers)) await context.route(`**/trivium.v1.*/${rpc}`, (route) => route.fulfill({ json }));
  const page = await context.newPage();
  await page.goto(`${address}/ui?tenant=${tenant}#${view}`);
  await shown(page).waitFor();
  return page;
}

export async function submit(page) {
  await shown(page).locator("button.main").click();
}

/** Has a view show what it shows: asks its question, or waits for what it loads. */
export const FILLED = {
  async ask(page) {
    await page.fill("[name=query]", QUESTION);
    await page.fill("[name=budget]", process.env.BUDGET_MS ?? "20000");
    await submit(page);
    await page.waitForSelector(".hits, .failure");
    if (await page.locator(".hits").count()) await page.locator(".ledger summary").first().click();
  },
  async compare(page) {
    await page.fill("[name=query]", QUESTION);
    await page.selectOption("[name=against]", "two_stage_baseline");
    await submit(page);
    await page.waitForSelector(".side li");
  },
  async why(page) {
    await page.fill("[name=query]", QUESTION);
    await page.fill("[name=id]", "turn-151");
    await submit(page);
    await page.waitForSelector(".stages");
  },
  async memory(page) {
    await page.fill("[name=entity]", "Nora");
    await submit(page);
    await page.waitForSelector("svg.graph");
    await page.waitForSelector(".timeline");
  },
  async tenants(page) {
    await shown(page).locator("tbody tr").first().waitFor();
  },
  async keys(page) {
    await shown(page).getByText(/^\d+ keys?$/).waitFor();
  },
  async audit(page) {
    await shown(page).locator("tbody tr").first().waitFor();
  },
  async service(page) {
    await page.waitForSelector(".cards");
  },
};
