// Ask a question, compare two profiles, and find out why an item is missing.

import { html, useState } from "/ui/vendor/htm-preact-3.1.1.js";
import { call, milliseconds, path } from "/ui/api.js";
import { COLOURS, Copy, Field, Outcome, Text, day, idOf, useCall, values } from "/ui/parts.js";

const LOSSES = { LOSS_NONE: "It is a hit." };

function request(given, tenant) {
  const made = { tenant, query: given.query };
  if (given.profile) made.profile = given.profile;
  if (given.limit) made.limit = Number(given.limit);
  if (given.budget) made.timeBudget = `${Number(given.budget) / 1000}s`;
  if (given.asOf) made.asOf = new Date(given.asOf).toISOString();
  if (given.timeZone) made.timeZone = given.timeZone;
  if (given.overrides) made.profileOverrides = JSON.parse(given.overrides);
  return made;
}

function Question({ profiles, onAsk, children }) {
  const [fault, setFault] = useState("");
  const submit = (event) => {
    try {
      const given = values(event);
      if (given.overrides) JSON.parse(given.overrides);
      setFault("");
      onAsk(given);
    } catch {
      setFault("The overrides are not JSON.");
    }
  };
  return html`<form onSubmit=${submit}>
    <${Field} label="Question" name="query" required wide />
    <label>Profile<select name="profile">
      <option value="">default</option>
      ${profiles.map((each) => html`<option>${each.name}</option>`)}
    </select></label>
    ${children}
    <button>Ask</button>
    ${fault && html`<p class="failure">${fault}</p>`}
  </form>`;
}

function Waterfall({ answer, budgetMs }) {
  const { statistics = {}, legReports = [] } = answer;
  const total = milliseconds(statistics.total);
  const after = ["loading", "ranking", "reranking"].map((name) => [name, milliseconds(statistics[name])]);
  const legsEnd = Math.max(0, total - after.reduce((sum, [, took]) => sum + took, 0));
  const rows = [["embedding", 0, milliseconds(statistics.embedding), ""]];
  for (const each of legReports) {
    const state = (each.state ?? "").replace("LEG_STATE_", "").toLowerCase().replace("_", " ");
    const found = `${each.candidateCount ?? 0} found${each.belowFloorCount ? `, ${each.belowFloorCount} below the floor` : ""}`;
    rows.push([each.leg, 0, milliseconds(each.elapsed), [state, found, each.reason].filter(Boolean).join("; ")]);
  }
  let start = legsEnd;
  for (const [name, took] of after) {
    if (took) rows.push([name, start, took, ""]);
    start += took;
  }
  const scale = Math.max(total, budgetMs || 0, 0.001);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Waterfall"><table>
    <thead><tr><th scope="col">step</th><th scope="col">of ${total.toFixed(1)} ms</th><th scope="col">ms</th><th scope="col">outcome</th></tr></thead>
    <tbody>${rows.map(([name, begin, took, said]) => html`<tr>
      <th scope="row">${name}</th>
      <td><span class="track" aria-hidden="true">
        <span class="bar" style=${{ left: `${(100 * begin) / scale}%`, width: `${Math.min(100, (100 * took) / scale)}%` }}></span>
        ${budgetMs ? html`<span class="budget" style=${{ left: `calc(${(100 * budgetMs) / scale}% - 2px)` }}></span>` : null}
      </span></td>
      <td>${took.toFixed(1)}</td><td>${said}</td>
    </tr>`)}</tbody>
  </table></div>
  ${budgetMs ? html`<small>The red line is the budget of ${budgetMs} ms.</small>` : null}`;
}

function Ledger({ hit, legs, most }) {
  const terms = hit.ledger?.legTerms ?? [];
  const colour = (leg) => `c${Math.max(0, legs.indexOf(leg)) % COLOURS}`;
  const extra = [
    hit.ledger?.importance && `importance × ${(hit.ledger.importance.multiplier ?? 1).toPrecision(3)}`,
    hit.ledger?.decay && `age × ${hit.ledger.decay.multiplier.toPrecision(3)}`,
    hit.ledger?.rerank && `reranker ${hit.ledger.rerank.logit.toPrecision(3)}`,
    hit.ledger?.reservedBy && `place reserved for ${hit.ledger.reservedBy}`,
  ].filter(Boolean);
  return html`<div class="stack" aria-hidden="true">${terms.map((term) => html`<span class=${colour(term.leg)} style=${{ width: `${(100 * (term.term ?? 0)) / most}%` }}></span>`)}</div>
    <small>${terms.map((term) => html`<span class=${colour(term.leg)}><span class="swatch"></span>${term.leg} ${(term.term ?? 0).toPrecision(3)} (rank ${term.rank}) </span>`)}${extra.join("; ")}</small>`;
}

function Hits({ answer, tenant }) {
  const { hits = [] } = answer;
  const legs = (answer.legReports ?? []).map((each) => each.leg);
  const most = Math.max(...hits.map((hit) => hit.ledger?.fusedScore ?? 0), 1e-9);
  if (!hits.length) return html`<p>Nothing was found.</p>`;
  return hits.map((hit) => {
    const item = hit.segment ?? hit.fact;
    const folded = (hit.folded ?? []).map(idOf);
    return html`<article>
      <strong>${hit.rank}.</strong> <${Text} segment=${hit.segment} fact=${hit.fact} tenant=${tenant} />
      <div class="quiet">${[item.id, item.speaker, day(item.eventTime ?? item.validFrom), `score ${(hit.score ?? 0).toPrecision(4)}`, hit.stage?.replace("STAGE_", "").toLowerCase()].filter(Boolean).join(" · ")}</div>
      ${hit.outdatedBy ? html`<div class="quiet">An older statement: ${idOf(hit.outdatedBy)} took its place.</div>` : null}
      ${folded.length ? html`<div class="quiet">folded into it: ${folded.join(", ")}</div>` : null}
      <${Ledger} hit=${hit} legs=${legs} most=${most} />
    </article>`;
  });
}

function curl(asked) {
  const body = JSON.stringify(asked).replaceAll("'", "'\\''");
  return `curl ${location.origin}${path("Retrieve")} -H 'content-type: application/json' -d '${body}'`;
}

function python(asked) {
  const text = JSON.stringify;
  const more = [asked.limit && `limit=${asked.limit}`, asked.profile && `profile=${text(asked.profile)}`].filter(Boolean);
  return `from trivium import Client\n\nwith Client("127.0.0.1:9000", tenant=${text(asked.tenant)}) as memory:\n    found = memory.retrieve(${[text(asked.query), ...more].join(", ")})\n    for hit in found.hits:\n        print(hit.rank, hit.score, hit.text)\n`;
}

function Block({ answer, asked }) {
  const [block, setBlock] = useState(answer.briefing);
  const hidden = (answer.hits ?? []).some((hit) => (hit.segment ?? hit.fact)?.sensitive) && !block;
  const reveal = async () => setBlock((await call("Retrieve", asked, { reveal: true })).briefing ?? "");
  return html`<h2>The block for a model</h2>
    ${hidden ? html`<button onClick=${reveal}>show the block, which has sensitive text</button>` : html`<pre tabindex="0">${block || "(empty)"}</pre>`}`;
}

export function Ask({ tenant, profiles }) {
  const [state, run] = useCall();
  const ask = (given) => run(async () => {
    const asked = { ...request(given, tenant), explain: true, briefing: {} };
    return { asked, budgetMs: Number(given.budget) || 0, found: await call("Retrieve", asked) };
  });
  const { asked, budgetMs, found } = state.answer ?? {};
  return html`<h2>Ask</h2>
    <${Question} profiles=${profiles} onAsk=${ask}>
      <${Field} label="Limit" name="limit" type="number" min="1" max="100" />
      <${Field} label="Budget, ms" name="budget" type="number" min="1" max="30000" />
      <${Field} label="As of" name="asOf" type="datetime-local" />
      <${Field} label="Time zone" name="timeZone" value=${Intl.DateTimeFormat().resolvedOptions().timeZone} />
      <${Field} label="Overrides of the profile (JSON)" name="overrides" />
    <//>
    <${Outcome} state=${state}>
      ${found && html`<div key=${JSON.stringify(found.statistics)}>
        <h2>Hits</h2><${Hits} answer=${found} tenant=${tenant} />
        ${(found.coercions ?? []).map((each) => html`<p>${each.field}: “${each.given}” was taken as “${each.used ?? ""}”.</p>`)}
        ${found.statistics?.foldedCount ? html`<p>${found.statistics.foldedCount} near-duplicates were folded.</p>` : null}
        <h2>Where the time went</h2><${Waterfall} answer=${found} budgetMs=${budgetMs} />
        <${Block} answer=${found} asked=${asked} />
        <p><${Copy} label="copy as curl" text=${curl(asked)} /> <${Copy} label="copy as Python" text=${python(asked)} /></p>
      </div>`}
    <//>`;
}

export function Compare({ tenant, profiles }) {
  const [state, run] = useCall();
  const ask = (given) => run(() => {
    const asked = { retrieve: request(given, tenant) };
    if (given.against) asked.against = given.against;
    if (given.againstOverrides) asked.againstOverrides = JSON.parse(given.againstOverrides);
    return call("Compare", asked);
  });
  const move = ({ rank, againstRank }) => {
    if (rank === undefined) return "new";
    if (againstRank === undefined) return "lost";
    return rank === againstRank ? "same" : `${rank > againstRank ? "up" : "down"} ${Math.abs(rank - againstRank)}`;
  };
  const answer = state.answer ?? {};
  const texts = new Map([...(answer.retrieved?.hits ?? []), ...(answer.against?.hits ?? [])].map((hit) => [(hit.segment ?? hit.fact).id, hit]));
  return html`<h2>Compare</h2>
    <${Question} profiles=${profiles} onAsk=${ask}>
      <label>Against<select name="against"><option value="">the same</option>${profiles.map((each) => html`<option>${each.name}</option>`)}</select></label>
      <${Field} label="Overrides of the second (JSON)" name="againstOverrides" />
    <//>
    <${Outcome} state=${state}>
      <p>${Math.round(100 * (answer.overlap ?? 0))} % of the items are in both.</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Moves"><table>
        <thead><tr><th scope="col">item</th><th scope="col">first</th><th scope="col">second</th><th scope="col">move</th></tr></thead>
        <tbody>${(answer.rankChanges ?? []).map((each) => html`<tr>
          <td>${texts.has(idOf(each.item)) ? html`<${Text} ...${texts.get(idOf(each.item))} tenant=${tenant} />` : null} <small>${idOf(each.item)}</small></td>
          <td>${each.rank ?? "–"}</td><td>${each.againstRank ?? "–"}</td><td>${move(each)}</td>
        </tr>`)}</tbody>
      </table></div>
    <//>`;
}

export function WhyNot({ tenant, profiles }) {
  const [state, run] = useCall();
  const ask = (given) => run(() => call("ExplainAbsence", {
    retrieve: request(given, tenant),
    item: given.kind === "fact" ? { factId: given.id } : { segmentId: given.id },
  }));
  const { loss = "", reason, by, rank, legs = [] } = state.answer ?? {};
  return html`<h2>Why not</h2>
    <${Question} profiles=${profiles} onAsk=${ask}>
      <label>Kind<select name="kind"><option>segment</option><option>fact</option></select></label>
      <${Field} label="Id of the expected item" name="id" required />
    <//>
    <${Outcome} state=${state}>
      <p><strong>${LOSSES[loss] ?? `Lost: ${loss.replace("LOSS_", "").toLowerCase().replaceAll("_", " ")}.`}</strong> ${reason}</p>
      ${by && html`<p>Its place has ${idOf(by)}.</p>`}
      ${rank && html`<p>Its rank without a limit is ${rank}.</p>`}
      <div class="scroll" tabindex="0" role="region" aria-label="Legs"><table>
        <thead><tr><th scope="col">leg</th><th scope="col">rank at any depth</th><th scope="col">depth</th><th scope="col">why not</th></tr></thead>
        <tbody>${legs.map((leg) => html`<tr><th scope="row">${leg.leg}</th><td>${leg.rank ?? "–"}</td><td>${leg.depth ?? 0}</td><td>${leg.reason || "found it"}</td></tr>`)}</tbody>
      </table></div>
    <//>`;
}
