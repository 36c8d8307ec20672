// The state of the service, read every few seconds while it is looked at.

import { html, useEffect } from "/ui/vendor/htm-preact-3.1.1.js";
import { call, milliseconds } from "/ui/api.js";
import { Outcome, Table, colour, count, idOf, minute, useCall } from "/ui/parts.js";

const EVERY_MS = 5000;

function Card({ title, children, ...table }) {
  return html`<section class="card"><h3>${title}</h3>${table.rows && html`<${Table} label=${title} ...${table} />`}${children}</section>`;
}

function legRow(leg) {
  const missed = [[leg.timedOutCount, "late"], [leg.failedCount, "failed"]].filter(([number]) => number).map(([number, what]) => `${number} ${what}`);
  return [
    html`<span class=${`swatch ${colour(leg.leg)}`}></span>${leg.leg}`,
    leg.answerCount ?? 0, ...[leg.p50, leg.p95].map((each) => html`<span class="number">${milliseconds(each).toFixed(1)}</span>`),
    html`${missed.map((each) => html`<span class="badge warn">${each}</span> `)}${leg.skippedCount ? `${leg.skippedCount} skipped` : ""}`,
  ];
}

function tierRow(tier) {
  const said = [count(tier.vectorCount ?? 0, "vector"), tier.approximate ? "approximate" : "exact", tier.rebuilding, tier.failure].filter(Boolean);
  return [`${tier.kind}s of this tenant`, said.join(", ")];
}

/** What is being done for all tenants, and how much of it is left. */
function jobs(projections, index) {
  const waiting = projections.filter((each) => Number(each.pendingCount) > 0).map((each) => [each.projection, `${count(each.pendingCount, "change")}, the oldest for ${(milliseconds(each.lag) / 1000).toFixed(1)} s`]);
  const rebuilt = (index.tiers ?? []).filter((each) => each.rebuilding).map((each) => [`index of ${each.kind}s`, each.rebuilding]);
  return [...(index.ready ? [] : [["index", index.reason ?? "not ready"]]), ...waiting, ...rebuilt];
}

/** Ray's dashboard, if its port is one that the settings know. */
function Dashboard() {
  const port = document.querySelector("meta[name=dashboard-port]")?.content;
  const said = "Replicas, logs and metrics";
  return port > 0 ? html`<p class="quiet">${said}: <a href=${`http://${location.hostname}:${port}`}>Ray's dashboard</a>.</p>` : html`<p class="quiet">${said}: Ray's dashboard, whose address the start of the service prints.</p>`;
}

export function Service({ tenant, shown }) {
  const [state, run] = useCall();
  useEffect(() => {
    if (!shown) return undefined;
    const read = () => run(() => call("GetStats", { tenant }));
    read();
    const timer = setInterval(read, EVERY_MS);
    return () => clearInterval(timer);
  }, [tenant, shown]);
  const { tenant: counts = {}, projections = [], index = {}, service = {}, deadLetters = [], legs = [] } = state.answer ?? {};
  const degraded = service.degraded ?? [];
  const busy = state.busy && !state.answer;
  return html`<${Outcome} keep state=${{ ...state, busy }} said=${state.answer && (degraded.length ? "" : "Every part answers.")}>
      ${degraded.map((each) => html`<p class="failure">${each}</p>`)}
      <div class="cards">
        <${Card} title="Under way" rows=${jobs(projections, index).length ? jobs(projections, index) : undefined}>
          ${jobs(projections, index).length === 0 && html`<p class="quiet">Nothing.</p>`}
        <//>
        <${Card} title="This tenant" rows=${[["segments", counts.segmentCount ?? 0], ["of them sensitive", counts.sensitiveSegmentCount ?? 0], ["facts", counts.factCount ?? 0], ["entities", counts.entityCount ?? "unknown"], ["embedded", `${counts.embeddedCount ?? 0} of ${counts.embeddableCount ?? 0}`]]} />
        <${Card} title="Projections" heads=${["projection", "pending", "behind", "dead letters"]} rows=${projections.map((each) => [each.projection, each.pendingCount ?? 0, `${(milliseconds(each.lag) / 1000).toFixed(1)} s`, each.deadLetterCount ?? 0])} />
        <${Card} title="Legs in the last five minutes" heads=${["leg", "answers", "p50 ms", "p95 ms", "missed"]} rows=${legs.length ? legs.map(legRow) : undefined}>
          ${legs.length === 0 && html`<p class="quiet">This replica gave no answers, or none that this caller may count.</p>`}
        <//>
        <${Card} title="Index" rows=${[["ready", index.ready ? "yes" : `no: ${index.reason ?? ""}`], ["vectors", index.vectorCount ?? 0], ["epoch", index.epoch ?? 0], ...(index.tiers ?? []).map(tierRow)]} />
        <${Card} title="Configuration" rows=${[["version", service.version], ["placement", service.placement], ["ingress", service.ingress], ["model", service.modelFingerprint], ["dimension", service.dimension], ["started", minute(service.startedAt)]]}><${Dashboard} /><//>
        <${Card} title="Dead letters" heads=${deadLetters.length ? ["item", "projection", "since", "reason"] : undefined} rows=${deadLetters.length ? deadLetters.map((each) => [idOf(each.item), each.projection, minute(each.deadLetteredAt), each.reason]) : undefined}>
          ${deadLetters.length === 0 && html`<p class="quiet">None.</p>`}
        <//>
      </div>
    <//>`;
}
