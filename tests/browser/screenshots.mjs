// Photographs the views of the page over the sample: `make screenshots`, while `make demo` runs.
// With DASHBOARD and TOKEN_FILE, as the demo prints them, also pages of Ray's dashboard.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { FILLED, launched, opened } from "./page.mjs";

const [address = "http://localhost:8000", folder = "../../docs/page"] = process.argv.slice(2);
const SHOWN = ["ask", "compare", "why", "memory"];
const QUALITY = 82;
const MAX_TRIES = 30;
const { DASHBOARD, TOKEN_FILE } = process.env;

process.env.BUDGET_MS ??= "100";
mkdirSync(folder, { recursive: true });
const browser = await launched();

/** Fills a view until all parts answer in time, for which a service that just started needs some answers. */
async function filled(page, fill) {
  for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
    await fill(page);
    if ((await page.locator(".failure, .bar.late").count()) === 0) return;
    await page.reload();
  }
  throw new Error(`the service does not answer in time in ${MAX_TRIES} tries`);
}

async function photograph(page, name) {
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
  writeFileSync(`${folder}/${name}.webp`, Buffer.from(data, "base64"));
}

for (const name of SHOWN) {
  const page = await opened(browser, address, { tenant: "demo", view: name });
  await filled(page, FILLED[name]);
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  await photograph(page, name);
  await page.context().close();
}

if (DASHBOARD) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 700 }, timezoneId: "UTC" });
  const value = readFileSync(TOKEN_FILE, "utf-8").trim();
  await context.addCookies([{ name: "ray-authentication-token", value, url: DASHBOARD }]);
  const page = await context.newPage();
  await page.goto(`${DASHBOARD}/#/serve`);
  await page.getByText("HEALTHY").nth(2).waitFor();
  await photograph(page, "ray-serve");
  await page.goto(`${DASHBOARD}/#/serve/applications/trivium/Fusion`);
  await page.locator("td a").first().click();
  await page.getByText("request_id").first().waitFor();
  await page.getByText("Logs", { exact: true }).last().scrollIntoViewIfNeeded();
  await photograph(page, "ray-replica");
  await page.goto(`${DASHBOARD}/#/cluster`);
  await page.getByText("ServeReplica").first().scrollIntoViewIfNeeded();
  await photograph(page, "ray-cluster");
}
await browser.close();
