// Photographs pages of Ray's dashboard: `make screenshots-dashboard`, while `make demo` runs.

import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { launched } from "./page.mjs";

const [address = "http://localhost:8265", tokenFile = newestToken(), folder = "../../docs/dashboard"] = process.argv.slice(2);
const QUALITY = 70;
const [WIDTH, HEIGHT] = [1280, 500];
const WAIT_MS = 60_000;

/** The token of the desk that started last. */
function newestToken() {
  const files = readdirSync(tmpdir()).filter((name) => name.startsWith("trv-")).map((name) => `${tmpdir()}/${name}/r/token`);
  const started = (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return files.sort((a, b) => started(b) - started(a))[0];
}

const browser = await launched();
const context = await browser.newContext({ timezoneId: "UTC" });
context.setDefaultTimeout(WAIT_MS);
await context.addCookies([{ name: "ray-authentication-token", value: readFileSync(tokenFile, "utf-8").trim(), url: address }]);
const page = await context.newPage();
const session = await context.newCDPSession(page);
mkdirSync(folder, { recursive: true });

/** Photographs a page around a text, as soon as the text is there. */
async function photograph(name, path, text, height = HEIGHT) {
  await page.setViewportSize({ width: WIDTH, height });
  await page.goto(`${address}/#/${path}`);
  const shown = page.getByText(text).first();
  await shown.waitFor();
  await shown.evaluate((element) => element.scrollIntoView({ block: "center" }));
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
  writeFileSync(`${folder}/${name}.webp`, Buffer.from(data, "base64"));
}

await photograph("serve", "serve", "RUNNING", 590); // without the logs below, which a second desk does not have
await photograph("deployment", "serve/applications/trivium/Fusion", "RUNNING");
await photograph("cluster", "cluster", "ServeReplica");
await browser.close();
