// What an answer is made of: its hits with their ledgers, and where its time went.

import { html } from "/ui/vendor/htm-preact-3.1.1.js";
import { milliseconds } from "/ui/api.js";
import { Table, Text, colour, idOf, minute, words } from "/ui/parts.js";

const MAX_SCALE = 5;
const ROUNDING = 1e-6;
const LATE = ["LEG_STATE_TIMED_OUT", "LEG_STATE_FAILED"];
const short = (number) => Number((number ?? 0).toPrecision(3)).toString();

function outcome(report) {
  const found = `${report.candidateCount ?? 0} found`;
  const below = report.belowFloorCount ? `${report.belowFloorCount} below the floor` : "";
  const state = report.state === "LEG_STATE_OK" ? "" : words(report.state, "LEG_STATE_");
  return [state, report.reason, found, below].filter(Boolean).join(", ");
}

/** The steps of an answer over time: the legs at once, then the rest, one after the other. */
export function Waterfall({ answer, budgetMs }) {
  const { statistics = {}, legReports = [], rerank } = answer;
  const total = milliseconds(statistics.total);
  const legs = legReports.map((each) => ({ name: each.leg, start: 0, took: milliseconds(each.elapsed), said: outcome(each), tone: LATE.includes(each.state) ? "late" : colour(each.leg) }));
  const steps = [{ name: "embedding", start: 0, took: milliseconds(statistics.embedding) }, ...legs];
  let start = Math.max(0, ...legs.map((each) => each.took));
  for (const name of ["loading", "ranking", "reranking"]) {
    const took = milliseconds(statistics[name]);
    if (took || (name === "reranking" && rerank)) {
      const said = name === "reranking" ? [words(rerank?.stage, "STAGE_"), rerank?.reason].filter(Boolean).join(", ") : "";
      steps.push({ name, start, took, said });
    }
    start += took;
  }
  // The bars of a small part of the budget would be dots.
  const isFar = budgetMs > MAX_SCALE * total;
  const scale = Math.max(isFar ? total : Math.max(total, budgetMs), 0.001);
  const at = (ms) => `${(100 * ms) / scale}%`;
  const rows = steps.map((step) => [
    html`${step.name}${step.said && html`<small>${step.said}</small>`}`,
    html`<span class="track" aria-hidden="true">
      <span class=${`bar ${step.tone ?? ""}`} style=${{ left: at(step.start), width: at(Math.min(step.took, scale - step.start)) }}></span>
      ${budgetMs > 0 && html`<span class=${isFar ? "budget far" : "budget"} style=${{ left: at(Math.min(budgetMs, scale)) }}></span>`}
    </span>`,
    step.took.toFixed(1),
  ]);
  return html`<section class="card waterfall"><h3>Where the time went</h3>
    <${Table} label="Where the time went" heads=${["step", `0 to ${scale.toFixed(0)} ms`, "ms"]} rows=${rows} />
    ${budgetMs > 0 && html`<p class="quiet">${isFar ? `The budget of ${budgetMs} ms is far to the right` : `The red line is the budget of ${budgetMs} ms`}; a hatched bar is a leg that failed or came late.</p>`}
  </section>`;
}

/** How the term of a leg is computed, as the ledger says. */
function formula({ weight, rank, legScore, minScore, maxScore }, { method, rankConstant }) {
  if (method === "FUSION_METHOD_RECIPROCAL_RANK") return `${short(weight)} / (${short(rankConstant)} + ${short(rank)})`;
  if (method === "FUSION_METHOD_CONVEX") return `${short(weight)} × (${short(legScore)} − ${short(minScore)}) / (${short(maxScore)} − ${short(minScore)})`;
  return `${short(weight)} × ${short(legScore)}`;
}

/** Why a score is multiplied for what holds now, and by which other statement. */
function reason({ reason: name, by }) {
  return [words(name, "CURRENCY_REASON_"), by && `of ${idOf(by)}`].filter(Boolean).join(" ");
}

/** What becomes of the sum of the legs, in this order. */
function factors({ importance, decay, diversity, rerank, reservedBy, adjacent = [], currency = [] }) {
  return [
    ...adjacent.map((term) => ["adjacent", `+ ${short(term.share)} × ${short(term.score)} of ${idOf(term.by)}`]),
    importance && ["importance", `${short(importance.importance)}: × ${short(importance.multiplier)}${importance.boost ? `, + ${short(importance.boost)}` : ""}`],
    decay && ["age", `${short(milliseconds(decay.age) / 86_400_000)} days: × ${short(decay.multiplier)}`],
    rerank && ["reranker", `${short(1 - rerank.weight)} × score / ${short(rerank.scale)} + ${short(rerank.weight)} × sigmoid(${short(rerank.logit)})`],
    ...currency.map((term) => ["holds now", `× ${short(term.factor)}: ${reason(term)}`]),
    diversity && ["diversity", `${short(diversity.maxSimilarity)} like ${idOf(diversity.closest) || "no other"}`],
    reservedBy && ["place", `reserved for ${reservedBy}`],
  ].filter(Boolean);
}

/** The parts of a score: what each leg is worth after all factors, and what is added besides. */
function parts({ score = 0, ledger = {} }) {
  const { legTerms = [], fusedScore = 0, importance, decay, rerank, currency = [] } = ledger;
  // A field that is 0 is left out of ProtoJSON, a term that does not apply is no field at all.
  const multipliers = [importance, decay].filter(Boolean).map((term) => term.multiplier ?? 0);
  const mixed = rerank ? (1 - (rerank.weight ?? 0)) / rerank.scale : 1;
  const factor = [...multipliers, ...currency.map((term) => term.factor ?? 0)].reduce((product, each) => product * each, mixed);
  const added = Math.max(0, score - factor * fusedScore);
  const sum = legTerms.map((term) => `${term.leg} ${short(term.term)}`).join(" + ");
  const said = Math.abs(factor - 1) < ROUNDING ? sum : `${legTerms.length > 1 ? `(${sum})` : sum} × ${short(factor)}`;
  return {
    bars: [...legTerms.map((term) => [colour(term.leg), Math.max(0, factor * (term.term ?? 0))]), ["added", added]],
    said: added > ROUNDING ? `${said} + ${short(added)}` : said,
  };
}

/** How a score came about: a bar with a part for each leg, and the sum when it is opened. */
export function Ledger({ hit, most }) {
  const ledger = hit.ledger ?? {};
  const terms = ledger.legTerms ?? [];
  const { bars, said: sum } = parts(hit);
  const rows = [
    ...terms.map((term) => [
      html`<span class=${`swatch ${colour(term.leg)}`}></span>${term.leg}`,
      html`${formula(term, ledger)} = <strong>${short(term.term)}</strong>`,
      [`leg score ${short(term.legScore)}`, term.path, term.factIds?.length && `by ${term.factIds.join(", ")}`].filter(Boolean).join("; "),
    ]),
    ["sum", html`<strong>${short(ledger.fusedScore)}</strong>`, ""],
    ...factors(ledger).map(([name, said]) => [name, said, ""]),
  ];
  return html`<details class="ledger"><summary>
      <span class="stack" aria-hidden="true">${bars.map(([tone, worth]) => html`<span class=${tone} style=${{ width: `${(100 * worth) / most}%` }}></span>`)}</span>
      <span class="score">${short(hit.score)}</span>
      <small>${sum}</small>
    </summary><${Table} label=${`Score of rank ${hit.rank}`} rows=${rows} /></details>`;
}

function Item({ hit, tenant, most }) {
  const item = hit.segment ?? hit.fact;
  const folded = (hit.folded ?? []).map(idOf);
  const said = [item.id, item.speaker, minute(item.eventTime ?? item.validFrom), item.session].filter(Boolean).join(" · ");
  return html`<li class=${hit.outdatedBy ? "older" : ""}>
    <span class="rank">${hit.rank}</span>
    <div>
      <div><${Text} segment=${hit.segment} fact=${hit.fact} tenant=${tenant} /></div>
      <p class="quiet">
        ${said}
        ${hit.fact && html` <span class="badge">fact</span>`}
        ${item.sensitive && html` <span class="badge">sensitive</span>`}
        ${hit.stage && html` <span class="badge">${words(hit.stage, "STAGE_")}</span>`}
        ${hit.outdatedBy && html` <span class="badge warn">older: ${idOf(hit.outdatedBy)} took its place</span>`}
        ${(hit.ledger?.currency ?? []).map((term) => html` <span class="badge">${reason(term)}</span>`)}
        ${folded.length > 0 && html` <span class="badge">folded into it: ${folded.join(", ")}</span>`}
      </p>
      ${hit.ledger && html`<${Ledger} hit=${hit} most=${most} />`}
    </div>
  </li>`;
}

export function Hits({ hits = [], tenant }) {
  const most = Math.max(...hits.map((hit) => hit.score ?? 0), 1e-9);
  if (hits.length === 0) return html`<p class="card">Nothing was found.</p>`;
  return html`<ol class="hits card">${hits.map((hit) => html`<${Item} key=${(hit.segment ?? hit.fact).id} hit=${hit} tenant=${tenant} most=${most} />`)}</ol>`;
}
