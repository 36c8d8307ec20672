// The page /ui over a service that runs: TRIVIUM_HTTP is its address, TENANT holds the sample, a
// sensitive turn and fact with the text SECRET, and turns and facts with the text HOSTILE.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { FILLED, QUESTION, VIEWS, launched, opened, shown, submit } from "./page.mjs";

const { TRIVIUM_HTTP: address, TENANT: tenant, SECRET: secret } = process.env;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser;
before(async () => { browser = await launched(); });
after(() => browser.close());

async function withPage(options, use) {
  const page = await opened(browser, address, { tenant, ...options });
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("request", (request) => request.url().startsWith(address) || faults.push(`asked ${request.url()}`));
  try {
    await use(page);
    assert.deepEqual(faults, []);
  } finally {
    await page.context().close();
  }
}

async function violations(page) {
  // Through the debugger, since the page's own policy lets nothing else in.
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate(() => globalThis.axe.run());
  return found.map((each) => `${each.id}: ${each.nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
}

for (const view of VIEWS) {
  for (const [width, scheme] of [[1280, "light"], [400, "dark"]]) {
    test(`${view} at ${width} px in ${scheme} fits and has no violations of axe`, () => withPage({ view, width, scheme }, async (page) => {
      await FILLED[view](page);

      assert.deepEqual(await violations(page), []);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "it scrolls sideways");
    }));
  }
}

for (const scheme of ["light", "dark"]) {
  test(`the page of routes in ${scheme} sends a request, and has no violations of axe`, () => withPage({ scheme, width: 400 }, async (page) => {
    await page.goto(`${address}/docs`);
    await page.getByText("POST /v1/retrieve").click();
    await page.getByRole("button", { name: "Send" }).first().click();
    await page.locator("pre", { hasText: "HTTP 200" }).waitFor();

    assert.deepEqual(await violations(page), []);
  }));
}

test("a question is asked and its answer opened with the keyboard alone", () => withPage({}, async (page) => {
  const focus = () => page.evaluate(() => document.activeElement.name || document.activeElement.textContent.trim());
  const tabTo = async (name) => {
    for (let presses = 0; (await focus()) !== name; presses += 1) {
      assert.ok(presses < 60, `Tab never reaches ${name}`);
      await page.keyboard.press("Tab");
    }
  };

  await tabTo("query");
  await page.keyboard.type(QUESTION);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".hits");
  const ledger = page.locator(".ledger").first();
  await tabTo((await ledger.locator("summary").textContent()).trim());
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none");
  await page.keyboard.press("Enter");

  assert.ok(await ledger.locator("table").isVisible());
}));

test("an answer shows its legs, the budget, the sum of its score, and the block", () => withPage({}, async (page) => {
  const answered = page.waitForResponse((response) => response.url().endsWith("/Retrieve"));
  await FILLED.ask(page);
  const answer = await (await answered).json();

  const steps = await page.locator(".waterfall tbody th").allTextContents();
  for (const { leg } of answer.legReports) assert.ok(steps.some((step) => step.startsWith(leg)), leg);
  assert.equal(await page.locator(".waterfall .budget").count(), steps.length);
  const [{ ledger }] = answer.hits;
  const sum = ledger.legTerms.reduce((total, each) => total + each.term, 0);
  assert.ok(Math.abs(sum - Number(await page.locator(".ledger").first().locator("tr", { hasText: "sum" }).locator("strong").textContent())) < 0.01);
  assert.equal(await page.getByLabel("The block for a model", { exact: true }).textContent(), answer.briefing);
  const outdated = answer.hits.filter((hit) => hit.outdatedBy).length;
  assert.equal(await page.locator(".hits .older").count(), outdated);
}));

test("the bar of a hit is as long as its score", () => withPage({}, async (page) => {
  const answered = page.waitForResponse((response) => response.url().endsWith("/Retrieve"));
  await FILLED.ask(page);
  const { hits } = await (await answered).json();

  const lengths = await page.locator(".stack").evaluateAll((stacks) => stacks.map((stack) => [...stack.children].reduce((sum, part) => sum + Number.parseFloat(part.style.width), 0)));
  const best = Math.max(...hits.map((hit) => hit.score));
  assert.ok(hits.some((hit) => hit.ledger.currency || hit.ledger.importance || hit.ledger.adjacent), "no score has a factor");
  lengths.forEach((length, place) => assert.ok(Math.abs(length - (100 * hits[place].score) / best) < 0.5, `${length} of ${JSON.stringify(hits[place])}`));
}));

test("a memory of the past is asked as of its newest turn", () => withPage({ answers: { GetStats: { tenant: { textSearchConfig: "english", newestEventTime: "2025-11-02T17:51:26Z" } } } }, async (page) => {
  await page.waitForFunction(() => document.querySelector("[name=asOf]").value === "2025-11-02T17:52");
}));

test("a tenant without items is called unknown", () => withPage({ tenant: "<b>nobody</b>" }, async (page) => {
  await page.getByText("There is no tenant “<b>nobody</b>”").waitFor();
}));

test("the ring of a field does not cover its label", () => withPage({}, async (page) => {
  await page.locator("[name=query]").focus();
  const free = await page.locator("[name=query]").evaluate((field) => {
    const label = document.createRange();
    label.selectNode(field.previousSibling);
    const { outlineWidth, outlineOffset } = getComputedStyle(field);
    return field.getBoundingClientRect().top - Number.parseFloat(outlineWidth) - Number.parseFloat(outlineOffset) - label.getBoundingClientRect().bottom;
  });

  assert.ok(free >= -1, `the ring covers ${-free} px`);
}));

test("the default profile can be the second of a comparison", () => withPage({ view: "compare" }, async (page) => {
  await page.fill("[name=query]", QUESTION);
  await page.selectOption("[name=profile]", "two_stage_baseline");
  await page.selectOption("[name=against]", "default");
  await submit(page);

  await page.getByRole("heading", { name: "Second: default" }).waitFor();
}));

for (const width of [1280, 390]) {
  test(`counts of what a leg missed are whole at ${width} px`, () => withPage({ view: "service", width, answers: { GetStats: { legs: [{ leg: "temporal", answerCount: 1234, timedOutCount: 26, failedCount: 13, skippedCount: 7 }] } } }, async (page) => {
    const badges = page.locator(".badge.warn");
    await badges.first().waitFor();

    assert.deepEqual(await badges.allTextContents(), ["26 late", "13 failed"]);
    assert.ok(await badges.evaluateAll((all) => all.every((each) => each.scrollWidth <= each.clientWidth)), "a badge is clipped");
  }));
}

test("a name that was heard wrongly is shown with the one it was read as", () => withPage({}, async (page) => {
  await page.fill("[name=query]", "What does Idrris draw?");
  await page.fill("[name=budget]", "20000");
  await submit(page);

  await page.locator(".notice", { hasText: "“Idrris” was read as the name “Idris”" }).waitFor();
}));

test("two profiles are compared, and lead to why an item is missing", () => withPage({ view: "compare" }, async (page) => {
  await FILLED.compare(page);
  await page.locator(".side button", { hasText: "why?" }).first().click();
  await submit(page);
  await page.waitForSelector(".stages .lost");

  assert.match(await shown(page).locator("[role=status]").textContent(), /^Lost: /);
}));

test("ended facts are struck through and an entity leads to its neighbours", () => withPage({ view: "memory" }, async (page) => {
  await FILLED.memory(page);
  assert.ok(await page.locator("del").count() > 0);
  await page.locator(".graph a", { hasText: "Pickle" }).first().click();
  await page.waitForSelector("svg[aria-label$='around Pickle']");

  assert.equal(await page.inputValue("[name=entity]"), "Pickle");
}));

test("a sensitive text is sent only when somebody clicks", () => withPage({ view: "memory" }, async (page) => {
  const bodies = [];
  page.on("response", async (response) => bodies.push(await response.text()));
  await page.fill("[name=session]", "of-the-safe");
  await submit(page);
  const covered = page.getByRole("button", { name: "show sensitive text" });
  await covered.waitFor();
  assert.ok(!bodies.join().includes(secret));

  await covered.click();

  await page.getByText(secret).waitFor();
}));

test("a sensitive fact is sent only when somebody clicks", () => withPage({ view: "memory" }, async (page) => {
  const bodies = [];
  page.on("response", async (response) => bodies.push(await response.text()));
  const covered = page.getByRole("button", { name: "show sensitive fact" });
  await covered.waitFor();
  assert.ok(!bodies.join().includes(secret));

  await covered.click();

  await page.getByText(`Safe opens by ${secret}`).waitFor();
}));

test("tenants are listed as text and lead to what they hold", () => withPage({ view: "tenants" }, async (page) => {
  const listed = page.getByRole("region", { name: "Tenants" }).locator("tr", { has: page.getByRole("button", { name: tenant, exact: true }) });
  await listed.waitFor();
  assert.ok(Number((await listed.locator("td").first().textContent()).replaceAll(",", "")) > 100);
  await listed.getByRole("button", { name: tenant, exact: true }).click();
  await page.waitForSelector(".timeline");

  assert.equal(new URL(page.url()).hash, "#memory");
}));

test("an item is added, changed and forgotten, which the audit log tells", () => withPage({ view: "memory" }, async (page) => {
  const asked = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.message());
    return asked.length === 1 ? dialog.dismiss() : dialog.accept();
  });
  const status = shown(page).locator("[role=status]");
  await page.getByRole("button", { name: "add a segment" }).click();
  const form = page.getByRole("form", { name: "Add a segment" });
  await form.locator("[name=id]").fill("by-hand");
  await form.locator("[name=text]").fill("Ida keeps bees.");
  await form.locator("[name=session]").fill("by hand");
  await form.locator("[name=labels]").fill("place=Goa");
  await form.locator("[name=eventTime]").fill("2025-05-06T07:08");
  await form.locator("[name=expiresAt]").fill("2099-05-06T07:08");
  await form.getByRole("button", { name: "Store" }).click();
  await status.getByText("The segment was created.").waitFor();
  await page.fill("main form:not([aria-label]) [name=session]", "by hand");
  await submit(page);
  await page.getByRole("button", { name: "edit by-hand" }).click();
  const edited = page.getByRole("form", { name: "Edit by-hand" });
  await edited.locator("[name=text]").fill("Ola keeps bees.");
  const sent = page.waitForRequest((request) => request.url().endsWith("/Ingest"));
  await edited.getByRole("button", { name: "Store" }).click();
  const { items: [{ segment }] } = (await sent).postDataJSON();
  await status.getByText("The segment was updated.").waitFor();
  assert.deepEqual([segment.labels, segment.session, segment.eventTime, segment.entities], [{ place: "Goa" }, "by hand", "2025-05-06T07:08:00Z", undefined]);
  assert.equal(segment.expiresAt, "2099-05-06T07:08:00Z");
  await page.locator(".turns", { hasText: "Ola keeps bees." }).waitFor();

  await page.getByRole("button", { name: "forget by-hand" }).click();
  await page.waitForFunction(() => document.querySelector(".turns"));
  await page.getByRole("button", { name: "forget by-hand" }).click();
  await page.getByRole("heading", { name: "Receipt: 1 segment and 0 facts were erased" }).waitFor();

  assert.deepEqual(asked, Array(2).fill("Erase the turn by-hand from every store: 1 segment and 0 facts? This cannot be undone."));
  await page.evaluate(() => { location.hash = "audit"; });
  const changes = page.getByRole("region", { name: "Changes" }).locator("tbody tr");
  await changes.first().waitFor();
  assert.deepEqual((await changes.evaluateAll((rows) => rows.map((row) => [...row.cells].slice(2).map((cell) => cell.textContent)))).slice(0, 3), [["Forget", tenant, "1 erased"], ["Ingest", tenant, "1 updated"], ["Ingest", tenant, "1 created"]]);
}));

test("an edit of an item that somebody else has changed stores nothing", () => withPage({ view: "memory" }, async (page) => {
  const store = (item) => page.request.post(`${address}/v1/ingest`, { data: { tenant, items: [{ segment: { id: "shared", session: "shared", ...item } }] } });
  await store({ text: "Ida keeps bees." });
  await page.fill("main form:not([aria-label]) [name=session]", "shared");
  await submit(page);
  await page.getByRole("button", { name: "edit shared" }).click();
  const form = page.getByRole("form", { name: "Edit shared" });
  await store({ text: "Ida keeps goats." });
  await form.locator("[name=speaker]").fill("Ola");
  await form.getByRole("button", { name: "Store" }).click();

  await form.locator(".failure", { hasText: "has version 2" }).waitFor();

  await form.getByRole("button", { name: "close" }).click();
  await submit(page);
  await page.locator(".turns", { hasText: "Ida keeps goats." }).waitFor();
}));

test("an invalid item names the field", () => withPage({ view: "memory" }, async (page) => {
  await page.getByRole("button", { name: "add a fact" }).click();
  const form = page.getByRole("form", { name: "Add a fact" });
  for (const name of ["subject", "relation", "object"]) await form.locator(`[name=${name}]`).fill("x");
  await form.locator("[name=validFrom]").fill("2025-05-06T07:08");
  await form.locator("[name=validTo]").fill("2025-05-05T07:08");
  await form.getByRole("button", { name: "Store" }).click();

  await form.locator(".failure", { hasText: "valid_to" }).waitFor();
}));

test("a filter restricts the answer and is in the examples", () => withPage({}, async (page) => {
  await page.fill("[name=query]", QUESTION);
  await page.fill("[name=budget]", "20000");
  await page.locator(".filter summary").click();
  await page.fill("[name=speakers]", "Nora, nobody");
  await page.fill("[name=from]", "2025-09-01T00:00");
  const answered = page.waitForResponse((response) => response.url().endsWith("/Retrieve"));
  await submit(page);
  const { hits } = await (await answered).json();

  assert.ok(hits.length > 0);
  assert.ok(hits.every((hit) => hit.segment.speaker === "Nora" && hit.segment.eventTime >= "2025-09-01"), JSON.stringify(hits));
  await page.getByText("This call as Python").click();
  const python = await page.getByLabel("This call as Python").textContent();
  assert.ok(python.includes('filter=Filter(speakers=["Nora", "nobody"], event_time=TimeRange(start=datetime.fromisoformat("2025-09-01T00:00:00.000+00:00")))'), python);
  await page.fill("[name=labels]", "no label");
  await submit(page);
  await page.locator(".failure", { hasText: "“no label” is no label" }).waitFor();
}));

const KEYS = { accepted: true, keys: [{ id: "0123456789abcdef", roles: ["ROLE_READER"], tenant: "<img src=x>", note: "<b>the bot</b>", createdAt: "2026-01-02T03:04:05Z" }] };

test("a new key is shown once, and a key is revoked after a question", () => withPage({ view: "keys", answers: { ListKeys: KEYS, CreateKey: { secret: "trv_00_shown-once" }, RevokeKey: {} } }, async (page) => {
  const sent = (rpc) => page.waitForRequest((request) => request.url().endsWith(rpc)).then((request) => request.postDataJSON());
  await page.getByRole("region", { name: "Keys" }).getByText("<b>the bot</b>").waitFor();
  await page.locator("[name=writer]").check();
  await page.fill("[name=keyTenant]", "acme");
  await page.fill("[name=note]", "another");
  const creation = sent("CreateKey");
  await submit(page);
  await page.getByLabel("The new key").getByText("trv_00_shown-once").waitFor();
  await page.getByRole("button", { name: "I have stored it" }).click();
  const revocation = sent("RevokeKey");
  page.on("dialog", (dialog) => dialog.accept());
  await page.getByRole("button", { name: "revoke 0123456789abcdef" }).click();

  assert.deepEqual(await creation, { roles: ["ROLE_READER", "ROLE_WRITER"], tenant: "acme", note: "another" });
  assert.deepEqual(await revocation, { id: "0123456789abcdef" });
  assert.ok(!(await page.content()).includes("shown-once"));
  assert.deepEqual(await violations(page), []);
}));

test("what is forgotten has a receipt of every store", () => withPage({ view: "memory" }, async (page) => {
  page.on("dialog", (dialog) => dialog.accept());
  await page.fill("[name=session]", "to-forget");
  await submit(page);
  await page.getByRole("button", { name: "forget this session" }).click();
  const receipt = page.getByRole("region", { name: "Receipt" });
  await receipt.waitFor();

  const stores = await receipt.locator("tbody th").allTextContents();
  assert.ok(["postgres", "vector_index", "graph"].every((store) => stores.includes(store)), stores.join());
  assert.equal(await receipt.getByText("yes").count(), stores.length);
}));

test("hostile texts are text", () => withPage({ view: "memory" }, async (page) => {
  page.on("dialog", () => assert.fail("a text opened a dialog"));
  await page.fill("[name=session]", "hostile");
  await submit(page);
  await page.locator(".turns", { hasText: "<script>" }).first().waitFor();
  await page.evaluate(() => { location.hash = "ask"; });
  await page.fill("[name=query]", "hostile alert");
  await submit(page);
  await page.locator(".hits", { hasText: "<script>" }).first().waitFor();

  assert.equal(await page.title(), "Trivium");
  assert.equal(await page.locator("main img, main script").count(), 0);
}));

test("a service that goes away is told, and shown again when it is back", () => withPage({ view: "service" }, async (page) => {
  await FILLED.service(page);
  await page.context().setOffline(true);
  await page.locator(".failure", { hasText: "does not answer" }).waitFor();
  assert.ok(await page.locator(".stale").isVisible());
  await page.evaluate(() => { location.hash = "ask"; });
  await page.fill("[name=query]", QUESTION);
  await submit(page);
  await shown(page).locator(".failure", { hasText: "does not answer" }).waitFor();

  await page.context().setOffline(false);
  await submit(page);
  await page.waitForSelector(".hits");
}));
