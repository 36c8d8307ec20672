// Ask a question, and see what its answer is made of.

import { html, useState } from "/ui/vendor/htm-preact-3.1.1.js";
import { call, curl, milliseconds, python, request } from "/ui/api.js";
import { Hits, Waterfall } from "/ui/answer.js";
import { Copy, Listing, Outcome, Question, count, useCall, words } from "/ui/parts.js";

function summary({ hits = [], legReports = [], statistics = {}, profile }, budgetMs) {
  const lacking = legReports.filter((each) => !["LEG_STATE_OK", "LEG_STATE_SKIPPED"].includes(each.state));
  return [
    `${count(hits.length, "hit")} in ${milliseconds(statistics.total).toFixed(1)} ms${budgetMs ? ` of ${budgetMs} ms` : ""}`,
    `profile ${profile}`,
    statistics.foldedCount && `${count(statistics.foldedCount, "repeat")} folded`,
    statistics.vanishedCount && `${count(statistics.vanishedCount, "item")} erased meanwhile`,
    ...lacking.map((each) => `${each.leg} ${words(each.state, "LEG_STATE_")}`),
  ].filter(Boolean).join(" · ");
}

function Changes({ coercions = [] }) {
  return coercions.map(({ field, given, used }) => html`<p class="notice">${field === "query" ? html`“${given}” was read as the name “${used}”.` : html`${field}: “${given}” was taken as “${used ?? ""}”.`}</p>`);
}

function Block({ answer, asked }) {
  const [block, setBlock] = useState(answer.briefing);
  const hidden = !block && (answer.hits ?? []).some((hit) => (hit.segment ?? hit.fact)?.sensitive);
  const reveal = async () => setBlock((await call("Retrieve", asked, { reveal: true })).briefing ?? "");
  return html`<section class="card"><h3>The block for a model</h3>
    ${hidden ? html`<button type="button" class="covered" onClick=${reveal}>show the block, which has sensitive text</button>` : html`
      <p class="quiet">${count((block ?? "").length, "character")} <${Copy} text=${block ?? ""} /></p>
      <pre tabindex="0" aria-label="The block for a model">${block || "(empty)"}</pre>`}
  </section>`;
}

export function Ask({ tenant, profiles, question, sample }) {
  const [state, run] = useCall();
  const [given] = question;
  const ask = () => run(async () => {
    const asked = { ...request(given, tenant), explain: true, briefing: {} };
    return { asked, budgetMs: Number(given.budget) || 0, found: await call("Retrieve", asked), at: Date.now() };
  });
  const { asked, budgetMs, found, at } = state.answer ?? {};
  return html`<${Question} state=${question} profiles=${profiles} onAsk=${ask} button="Ask" />
    <${Outcome} state=${state} said=${found ? summary(found, budgetMs) : sample}>
      <${Changes} coercions=${found?.coercions} />
      <div class="columns" key=${at}>
        <section><h3>Hits</h3><${Hits} hits=${found?.hits} tenant=${tenant} /></section>
        <div>
          <${Waterfall} answer=${found ?? {}} budgetMs=${budgetMs} />
          <${Block} answer=${found ?? {}} asked=${asked} />
          ${asked && html`<${Listing} title="This call as curl" text=${curl(asked)} /><${Listing} title="This call as Python" text=${python(asked)} />`}
        </div>
      </div>
    <//>`;
}
