// What is stored, and erasing it.

import { html, useEffect, useState } from "/ui/vendor/htm-preact-3.1.1.js";
import { call } from "/ui/api.js";
import { Field, Outcome, Text, day, useCall, values } from "/ui/parts.js";

const PAGE = 100;

function bySession(segments) {
  const sessions = new Map();
  for (const each of segments.toSorted((a, b) => (a.eventTime ?? "").localeCompare(b.eventTime ?? ""))) {
    const name = each.session || "(no session)";
    sessions.set(name, [...(sessions.get(name) ?? []), each]);
  }
  return [...sessions];
}

function Segments({ tenant, filter, onForget }) {
  const [state, run] = useCall();
  const load = (token = "", before = []) => run(async () => {
    const page = await call("ListSegments", { tenant, filter, pageSize: PAGE, pageToken: token });
    return { segments: [...before, ...(page.segments ?? [])], next: page.nextPageToken };
  });
  useEffect(() => { load(); }, [tenant, filter]);
  const { segments = [], next } = state.answer ?? {};
  return html`<h3>Turns by session</h3>
    <${Outcome} state=${state}>
      ${segments.length === 0 && html`<p>None.</p>`}
      ${bySession(segments).map(([session, turns]) => html`<details open>
        <summary>${session}: ${turns.length}, ${day(turns[0].eventTime)} to ${day(turns.at(-1).eventTime)}</summary>
        ${turns.map((each) => html`<article key=${each.id}>
          <small>${day(each.eventTime)}</small> ${each.speaker && html`<strong>${each.speaker}:</strong>`} <${Text} segment=${each} tenant=${tenant} />
          <div class="quiet">${each.id}${each.entities?.length ? ` · ${each.entities.join(", ")}` : ""} <button type="button" onClick=${() => onForget({ ids: { segmentIds: [each.id] } }, `the turn ${each.id}`)}>forget</button></div>
        </article>`)}
      </details>`)}
      ${next && html`<button onClick=${() => load(next, segments)}>more</button>`}
    <//>`;
}

function Facts({ tenant, entity, onEntity, onForget }) {
  const [state, run] = useCall();
  useEffect(() => {
    run(async () => (await call("ListFacts", { tenant, entities: entity ? [entity] : [], pageSize: PAGE })).facts ?? []);
  }, [tenant, entity]);
  const closed = (fact) => fact.validTo || fact.closings?.length || fact.retractedAt;
  const facts = state.answer ?? [];
  return html`<h3>Facts${entity ? ` of ${entity}` : ""}</h3>
    <${Outcome} state=${state}>
      ${facts.length === 0 && html`<p>None.</p>`}
      ${facts.map((fact) => {
        const words = fact.sensitive ? "(sensitive)" : html`<button onClick=${() => onEntity(fact.subject)}>${fact.subject}</button> ${fact.relation} <button onClick=${() => onEntity(fact.object)}>${fact.object}</button>`;
        const end = fact.validTo ?? fact.closings?.[0]?.at ?? fact.retractedAt;
        return html`<article key=${fact.id}>${closed(fact) ? html`<del>${words}</del>` : words}
          <div class="quiet">${fact.id} · from ${day(fact.validFrom) || "always"}${end ? ` to ${day(end)}` : ""}${fact.evidence?.length ? ` · evidence: ${fact.evidence.join(", ")}` : ""} <button type="button" onClick=${() => onForget({ ids: { factIds: [fact.id] } }, `the fact ${fact.id}`)}>forget</button></div>
        </article>`;
      })}
    <//>`;
}

function Receipt({ receipt }) {
  return html`<h3>Receipt</h3>
    <p>${receipt.segmentCount ?? 0} segments and ${receipt.factCount ?? 0} facts were erased.</p>
    <div class="scroll" tabindex="0" role="region" aria-label="Receipt"><table>
      <thead><tr><th scope="col">store</th><th scope="col">removed</th><th scope="col">still there</th><th scope="col">verified</th></tr></thead>
      <tbody>${(receipt.receipts ?? []).map((each) => html`<tr><th scope="row">${each.store}</th><td>${each.removedCount ?? 0}</td><td>${each.remainingCount ?? 0}</td><td>${each.verified ? "yes" : `no: ${each.reason ?? ""}`}</td></tr>`)}</tbody>
    </table></div>`;
}

export function Memory({ tenant }) {
  const [filter, setFilter] = useState({});
  const [entity, setEntity] = useState("");
  const [version, setVersion] = useState(0);
  const [forgotten, run] = useCall();
  const choose = (name) => {
    setEntity(name);
    setFilter(name ? { entities: [name] } : {});
  };
  const forget = (selector, what) => {
    if (confirm(`Erase ${what} from every store? This cannot be undone.`)) {
      run(async () => {
        const receipt = await call("Forget", { tenant, ...selector });
        setVersion((before) => before + 1);
        return receipt;
      });
    }
  };
  const search = (event) => {
    const { speaker, session, name } = values(event);
    setEntity(name);
    setFilter({
      ...(speaker && { speakers: [speaker] }),
      ...(session && { sessions: [session] }),
      ...(name && { entities: [name] }),
    });
  };
  return html`<h2>Memory</h2>
    <form onSubmit=${search}>
      <${Field} label="Speaker" name="speaker" /><${Field} label="Session" name="session" />
      <${Field} label="Entity" name="name" /><button>Show</button>
      ${entity && html`<button type="button" onClick=${() => choose("")}>all entities</button>`}
    </form>
    <form onSubmit=${(event) => { const { session } = values(event); forget({ session }, `the session ${session}`); }}>
      <${Field} label="Session to forget" name="session" required /><button>Forget it</button>
    </form>
    <${Outcome} state=${forgotten}>${forgotten.answer && html`<${Receipt} receipt=${forgotten.answer} />`}<//>
    <${Facts} key=${`f${version}`} tenant=${tenant} entity=${entity} onEntity=${choose} onForget=${forget} />
    <${Segments} key=${`t${version}`} tenant=${tenant} filter=${filter} onForget=${forget} />`;
}
