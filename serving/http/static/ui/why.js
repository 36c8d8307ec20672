// The stage that lost an item.

import { html } from "/ui/vendor/htm-preact-3.1.1.js";
import { call, request } from "/ui/api.js";
import { Hits } from "/ui/answer.js";
import { Choice, Field, Outcome, Question, Table, colour, idOf, useCall, words } from "/ui/parts.js";

/** The stages in their order, and the losses of each. */
const STAGES = [
  ["stored", ["NOT_STORED"]],
  ["passes the filter", ["FILTERED"]],
  ["in the index and the graph", ["NOT_PROJECTED"]],
  ["found by a leg", ["NOT_MATCHED", "BELOW_DEPTH", "NOT_SEARCHED", "UNANSWERED"]],
  ["no repeat", ["FOLDED"]],
  ["important enough", ["LESS_IMPORTANT"]],
  ["recent enough", ["DECAYED"]],
  ["kept by the reranker", ["BELOW_HEAD", "RERANKED_DOWN"]],
  ["holds now", ["OUTDATED"]],
  ["not displaced", ["DISPLACED"]],
  ["within the limit", ["CUT"]],
];

function Stages({ loss }) {
  const lostAt = STAGES.findIndex(([, losses]) => losses.includes(loss));
  return html`<ol class="stages">${STAGES.map(([name], number) => {
    const state = lostAt < 0 || number < lostAt ? "passed" : number === lostAt ? "lost" : "unreached";
    return html`<li class=${state}><span aria-hidden="true">${{ passed: "✓", lost: "✗", unreached: "·" }[state]}</span> ${name} <span class="spoken">${state}</span></li>`;
  })}</ol>`;
}

export function WhyNot({ tenant, profiles, question }) {
  const [state, run] = useCall();
  const [given] = question;
  const ask = () => run(() => call("ExplainAbsence", {
    retrieve: request(given, tenant),
    item: given.kind === "fact" ? { factId: given.id } : { segmentId: given.id },
  }));
  const { loss = "", reason, by, rank, hit, legs = [] } = state.answer ?? {};
  const said = loss === "LOSS_NONE" ? `It is a hit, at rank ${hit?.rank ?? rank}.` : `Lost: ${words(loss, "LOSS_")}. ${reason ?? ""}`;
  return html`<${Question} state=${question} profiles=${profiles} onAsk=${ask} button="Explain">
      <${Choice} label="Kind of item" name="kind" state=${question} options=${[["segment", "segment"], ["fact", "fact"]]} />
      <${Field} label="Id of the expected item" name="id" state=${question} required placeholder="turn-033" />
    <//>
    <${Outcome} state=${state} said=${state.answer ? said : "Which stage lost an item that you expected?"}>
      <section class="card"><h3>What became of the item</h3><${Stages} loss=${loss.replace("LOSS_", "")} />
        ${by && html`<p>Its place has ${idOf(by)}.</p>`}
        ${rank !== undefined && html`<p>Without a limit its rank would be ${rank}.</p>`}
      </section>
      <section class="card"><h3>What each leg says</h3>
        <${Table} label="Legs" heads=${["leg", "rank at any depth", "depth", "why not"]} rows=${legs.map((leg) => [html`<span class=${`swatch ${colour(leg.leg)}`}></span>${leg.leg}`, leg.rank ?? "–", leg.depth ?? 0, leg.reason || "found it"])} />
      </section>
      ${hit && html`<${Hits} hits=${[{ ...hit, rank: hit.rank || rank || "" }]} tenant=${tenant} />`}
    <//>`;
}
