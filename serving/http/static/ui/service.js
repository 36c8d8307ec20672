// The state of the service, read every few seconds.

import { html, useEffect } from "/ui/vendor/htm-preact-3.1.1.js";
import { call, milliseconds } from "/ui/api.js";
import { Outcome, day, useCall } from "/ui/parts.js";

const EVERY_MS = 5000;

function Rows({ label, rows }) {
  return html`<h3>${label}</h3><div class="scroll" tabindex="0" role="region" aria-label=${label}><table><tbody>
    ${rows.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${value ?? ""}</td></tr>`)}
  </tbody></table></div>`;
}

export function Service({ tenant }) {
  const [state, run] = useCall();
  useEffect(() => {
    const read = () => run(() => call("GetStats", { tenant }));
    read();
    const timer = setInterval(read, EVERY_MS);
    return () => clearInterval(timer);
  }, [tenant]);
  const { tenant: counts = {}, projections = [], index = {}, service = {}, deadLetters = [] } = state.answer ?? {};
  const degraded = service.degraded ?? [];
  return html`<h2>Service</h2>
    <${Outcome} state=${{ ...state, busy: false }}>
      <p class=${degraded.length ? "failure" : ""}>${degraded.length ? `Degraded: ${degraded.join("; ")}` : "Every part answers."}</p>
      <${Rows} label="This tenant" rows=${[["segments", counts.segmentCount ?? 0], ["of them sensitive", counts.sensitiveSegmentCount ?? 0], ["facts", counts.factCount ?? 0], ["entities", counts.entityCount ?? "unknown"], ["embedded", `${counts.embeddedCount ?? 0} of ${counts.embeddableCount ?? 0}`]]} />
      <${Rows} label="Projections" rows=${projections.map((each) => [each.projection, `${each.pendingCount ?? 0} pending, ${Math.round(milliseconds(each.lag) / 1000)} s behind, ${each.deadLetterCount ?? 0} dead letters`])} />
      <${Rows} label="Index" rows=${[["ready", index.ready ? "yes" : `no: ${index.reason}`], ["vectors", index.vectorCount ?? 0], ["epoch", index.epoch], ...(index.tiers ?? []).map((tier) => [`${tier.kind}s`, `${tier.vectorCount ?? 0} vectors, ${tier.approximate ? "approximate" : "exact"}${tier.rebuilding ? `, ${tier.rebuilding}` : ""}${tier.failure ? `, ${tier.failure}` : ""}`])]} />
      <${Rows} label="Configuration" rows=${[["version", service.version], ["placement", service.placement], ["ingress", service.ingress], ["model", service.modelFingerprint], ["dimension", service.dimension], ["started", day(service.startedAt)]]} />
      <h3>Dead letters</h3>
      ${deadLetters.length ? deadLetters.map((each) => html`<article>${each.projection}: ${each.item?.segmentId ?? each.item?.factId} <small>${day(each.deadLetteredAt)}</small> ${each.reason}</article>`) : html`<p>None.</p>`}
      <p class="quiet">Replicas, logs and metrics: Ray's dashboard, whose address the start of the service prints.</p>
    <//>`;
}
