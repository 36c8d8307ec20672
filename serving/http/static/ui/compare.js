// One question under two profiles or overrides, side by side.

import { html } from "/ui/vendor/htm-preact-3.1.1.js";
import { call, fields, milliseconds, request } from "/ui/api.js";
import { Choice, Field, Outcome, Question, Text, useCall, words } from "/ui/parts.js";

const ROW = 100;
const idOfHit = (hit) => (hit.segment ?? hit.fact).id;

function Move({ rank, other, onWhy }) {
  if (other === undefined) return onWhy ? html`<button type="button" onClick=${onWhy}>only here: why?</button>` : html`<span class="badge">only here</span>`;
  if (other === rank) return html`<span class="quiet">same place</span>`;
  return html`<span class=${`badge ${rank < other ? "up" : "down"}`}>${rank < other ? "▲ up" : "▼ down"} ${Math.abs(rank - other)}</span>`;
}

function Side({ title, answer, others, tenant, onWhy }) {
  const lacking = (answer.legReports ?? []).filter((each) => !["LEG_STATE_OK", "LEG_STATE_SKIPPED"].includes(each.state));
  return html`<section><h3>${title}: ${answer.profile}</h3>
    <p class="quiet">${milliseconds(answer.statistics?.total).toFixed(1)} ms${lacking.map((each) => `; ${each.leg} ${words(each.state, "LEG_STATE_")}`).join("")}</p>
    <ol class="side">${(answer.hits ?? []).map((hit) => html`<li key=${idOfHit(hit)}>
      <span class="rank">${hit.rank}</span>
      <div class="clamp"><${Text} segment=${hit.segment} fact=${hit.fact} tenant=${tenant} /></div>
      <div class="quiet">${idOfHit(hit)} <${Move} rank=${hit.rank} other=${others.get(idOfHit(hit))} onWhy=${onWhy && (() => onWhy(hit))} /></div>
    </li>`)}</ol>
  </section>`;
}

/** A line from the place of each item on the left to its place on the right. */
function Lines({ left, right, length }) {
  const y = (rank) => ROW * (rank - 0.5);
  return html`<svg class="lines" aria-hidden="true" viewBox=${`0 0 100 ${ROW * length}`} preserveAspectRatio="none" style=${{ height: `${5.5 * length}rem` }}>
    ${[...left].filter(([id]) => right.has(id)).map(([id, rank]) => {
      const other = right.get(id);
      return html`<line class=${other === rank ? "same" : other < rank ? "up" : "down"} x1="0" x2="100" y1=${y(rank)} y2=${y(other)} />`;
    })}
  </svg>`;
}

export function Compare({ tenant, profiles, question, go }) {
  const [state, run] = useCall();
  const [given, set] = question;
  const ask = () => run(() => {
    const asked = { retrieve: request(given, tenant) };
    if (given.against) asked.against = given.against;
    if (given.againstOverrides) asked.againstOverrides = fields(given.againstOverrides, "overrides of the second");
    return call("Compare", asked);
  });
  const { retrieved = {}, against = {}, overlap = 0 } = state.answer ?? {};
  const ranks = (answer) => new Map((answer.hits ?? []).map((hit) => [idOfHit(hit), hit.rank]));
  const left = ranks(retrieved), right = ranks(against);
  const length = Math.max(left.size, right.size, 1);
  const why = (hit, changes) => {
    set({ kind: hit.fact ? "fact" : "segment", id: idOfHit(hit), ...changes });
    go("why");
  };
  return html`<${Question} state=${question} profiles=${profiles} onAsk=${ask} button="Compare">
      <${Choice} label="Second profile" name="against" state=${question} options=${[["", "the same"], ["default", "default"], ...profiles.map((name) => [name, name])]} />
      <${Field} label="Second overrides (JSON)" name="againstOverrides" state=${question} />
    <//>
    <${Outcome} state=${state} said=${state.answer ? `${Math.round(100 * overlap)} % of the items are in both.` : "Choose a second profile, or overrides of the second."}>
      <div class="versus">
        <${Side} title="First" answer=${retrieved} others=${right} tenant=${tenant} onWhy=${(hit) => why(hit, { profile: given.against || given.profile, overrides: given.againstOverrides })} />
        <${Lines} left=${left} right=${right} length=${length} />
        <${Side} title="Second" answer=${against} others=${left} tenant=${tenant} onWhy=${(hit) => why(hit, {})} />
      </div>
    <//>`;
}
