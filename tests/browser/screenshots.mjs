// Photographs the views of the page over the sample: `make screenshots`, while `make demo` runs.

import { mkdirSync, writeFileSync } from "node:fs";
import { FILLED, launched, opened } from "./page.mjs";

const [address = "http://localhost:8000", folder = "../../docs/page"] = process.argv.slice(2);
const SHOWN = ["ask", "compare", "why", "memory"];
const QUALITY = 82;
const MAX_TRIES = 30;

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

for (const name of SHOWN) {
  const page = await opened(browser, address, { tenant: "demo", view: name });
  await filled(page, FILLED[name]);
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
  writeFileSync(`${folder}/${name}.webp`, Buffer.from(data, "base64"));
  await page.context().close();
}
await browser.close();
