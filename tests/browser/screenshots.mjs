// Photographs each view of the page over the sample: `make screenshots`, while `make demo` runs.

import { mkdirSync, writeFileSync } from "node:fs";
import { FILLED, launched, opened } from "./page.mjs";

const [address = "http://localhost:8000", folder = "../../docs/page"] = process.argv.slice(2);
const QUALITY = 82;
const WARM_UP = 5;

process.env.BUDGET_MS ??= "100";
mkdirSync(folder, { recursive: true });
const browser = await launched();
for (const [name, fill] of Object.entries(FILLED)) {
  const page = await opened(browser, address, { tenant: "demo", view: name });
  for (let times = 0; times < (name === "ask" ? WARM_UP : 0); times += 1) {
    await fill(page);
    await page.reload();
  }
  await fill(page);
  await page.waitForTimeout(1000);
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
  writeFileSync(`${folder}/${name}.webp`, Buffer.from(data, "base64"));
  await page.context().close();
}
await browser.close();
