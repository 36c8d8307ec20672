// What is stored; adding to it, changing and erasing it.

import { html, useEffect, useState } from "/ui/vendor/htm-preact-3.1.1.js";
import { call, forgetCounted } from "/ui/api.js";
import { Editor } from "/ui/edit.js";
import { Graph } from "/ui/graph.js";
import { Field, Outcome, Receipt, Table, Text, count, day, minute, useCall } from "/ui/parts.js";

const PAGE = 1000;
const MAX_NEIGHBOURS = 60;
const MAX_TURNS_OPEN = 40;
const NO_SESSION = "(no session)";

const endOf = (fact) => fact.retractedAt ?? fact.validTo ?? fact.closings?.find((each) => !each.retractedAt)?.at;
const isClosed = (fact) => endOf(fact) !== undefined;

function bySession(segments) {
  const sessions = Map.groupBy(
    segments.toSorted((a, b) => (a.eventTime ?? "").localeCompare(b.eventTime ?? "")),
    (each) => each.session || NO_SESSION,
  );
  return [...sessions].map(([name, turns]) => ({ name, turns, from: turns[0].eventTime ?? "", to: turns.at(-1).eventTime ?? "" }));
}

/** The sessions as dots on a line; the larger, the more turns. */
function TimeLine({ sessions, onSession }) {
  const [first, last] = [Date.parse(sessions[0].from), Date.parse(sessions.at(-1).from)];
  const left = (time) => `${last > first ? (100 * (Date.parse(time) - first)) / (last - first) : 50}%`;
  return html`<div class="timeline" role="group" aria-label="Sessions over time">
    ${sessions.map(({ name, turns, from }) => {
      const label = `${name}: ${count(turns.length, "turn")}, ${day(from)}`;
      const size = `${Math.min(2, 0.75 + Math.sqrt(turns.length) / 8)}rem`;
      return html`<button type="button" key=${name} title=${label} aria-label=${label} style=${{ left: left(from), width: size, height: size }} onClick=${() => onSession(name)}></button>`;
    })}
    <span class="quiet">${day(sessions[0].from)}</span><span class="quiet">${day(sessions.at(-1).to)}</span>
  </div>`;
}

function Turn({ segment, tenant, onForget, onEdit }) {
  return html`<li>
    <small>${minute(segment.eventTime)}</small>
    <div>${segment.speaker && html`<strong>${segment.speaker}:</strong> `}<${Text} segment=${segment} tenant=${tenant} />
      <p class="quiet">${[segment.id, ...(segment.entities ?? [])].join(" · ")} <button type="button" onClick=${() => onEdit("segment", segment.id)} aria-label=${`edit ${segment.id}`}>edit</button> <button type="button" onClick=${() => onForget({ ids: { segmentIds: [segment.id] } }, `the turn ${segment.id}`)} aria-label=${`forget ${segment.id}`}>forget</button></p>
    </div>
  </li>`;
}

function Segments({ tenant, filter, onForget, onEdit }) {
  const [state, run] = useCall();
  const [chosen, setChosen] = useState("");
  const load = (token = "", before = []) => run(async () => {
    const page = await call("ListSegments", { tenant, filter, pageSize: PAGE, pageToken: token });
    return { segments: [...before, ...(page.segments ?? [])], next: page.nextPageToken };
  });
  useEffect(() => { load(); }, [tenant, filter]);
  useEffect(() => { document.getElementById(`session-${chosen}`)?.scrollIntoView({ block: "nearest" }); }, [chosen]);
  const { segments = [], next } = state.answer ?? {};
  const sessions = bySession(segments);
  const open = (name) => name === chosen || segments.length <= MAX_TURNS_OPEN;
  return html`<section class="card"><h3>Turns by session</h3>
    <${Outcome} state=${state} said=${state.answer && `${count(segments.length, "turn")} in ${count(sessions.length, "session")}${next ? ", and more" : ""}`}>
      ${sessions.length > 1 && html`<${TimeLine} sessions=${sessions} onSession=${setChosen} />`}
      ${sessions.map(({ name, turns, from }) => html`<details key=${name} id=${`session-${name}`} open=${open(name)}>
        <summary><strong>${day(from)}</strong> ${name} <span class="quiet">${[count(turns.length, "turn"), ...new Set(turns.map((each) => each.speaker).filter(Boolean))].join(", ")}</span></summary>
        ${name !== NO_SESSION && html`<button type="button" onClick=${() => onForget({ session: name }, `the session ${name}`)}>forget this session</button>`}
        <ol class="turns">${turns.map((each) => html`<${Turn} key=${each.id} segment=${each} tenant=${tenant} onForget=${onForget} onEdit=${onEdit} />`)}</ol>
      </details>`)}
      ${next && html`<button type="button" onClick=${() => load(next, segments)}>more</button>`}
    <//>
  </section>`;
}

function Entity({ name, onEntity }) {
  return html`<button type="button" class="entity" onClick=${() => onEntity(name)}>${name}</button>`;
}

function factRow(fact, tenant, onEntity, onForget, onEdit) {
  const words = fact.sensitive ? html`<${Text} key=${fact.id} fact=${fact} tenant=${tenant} />` : html`<${Entity} name=${fact.subject} onEntity=${onEntity} /> ${fact.relation} <${Entity} name=${fact.object} onEntity=${onEntity} />`;
  const end = endOf(fact);
  return [
    isClosed(fact) ? html`<del>${words}</del>` : words,
    html`<span class="date">${day(fact.validFrom) || "always"}</span> – <span class="date">${day(end)}</span>${fact.retractedAt && " (retracted)"}`,
    html`<span class="quiet">${[fact.id, ...(fact.evidence ?? [])].join(", ")}</span>`,
    html`<span class="date"><button type="button" onClick=${() => onEdit("fact", fact.id)} aria-label=${`edit ${fact.id}`}>edit</button> <button type="button" onClick=${() => onForget({ ids: { factIds: [fact.id] } }, `the fact ${fact.id}`)} aria-label=${`forget ${fact.id}`}>forget</button></span>`,
  ];
}

/** The entities of facts, those of the most facts first. */
function entitiesOf(facts) {
  const counts = new Map();
  for (const { subject, object } of facts.filter((fact) => !fact.sensitive)) {
    for (const name of new Set([subject, object])) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].toSorted(([a, m], [b, n]) => n - m || a.localeCompare(b)).map(([name]) => name);
}

function Facts({ tenant, entity, onEntity, onForget, onEdit }) {
  const [state, run] = useCall();
  const [hops, setHops] = useState(2);
  useEffect(() => {
    run(async () => {
      const list = async (entities) => (await call("ListFacts", { tenant, entities, pageSize: PAGE })).facts ?? [];
      const own = await list(entity ? [entity] : []);
      const neighbours = entity ? entitiesOf(own).slice(0, MAX_NEIGHBOURS) : [];
      const wider = neighbours.length > 0 ? await list(neighbours) : [];
      return { own, all: [...new Map([...own, ...wider].map((fact) => [fact.id, fact])).values()] };
    });
  }, [tenant, entity]);
  const { own = [], all = [] } = state.answer ?? {};
  const names = entitiesOf(own);
  // The name as facts spell it.
  const centre = names.find((name) => name.toLowerCase() === entity.toLowerCase());
  return html`<section class="card"><h3>Entities and facts${entity ? ` of ${entity}` : ""}</h3>
    <${Outcome} state=${state} said=${state.answer && `${count(own.length, "fact")}, ${own.filter(isClosed).length} of them no longer true${own.length === PAGE ? "; more are not shown" : ""}`}>
      ${centre ? html`
        <label class="inline"><input type="checkbox" checked=${hops === 2} onChange=${(event) => setHops(event.target.checked ? 2 : 1)} /> two hops</label>
        <${Graph} centre=${centre} facts=${all} hops=${hops} onEntity=${onEntity} isClosed=${isClosed} />
      ` : html`<p class="entities">${names.slice(0, MAX_NEIGHBOURS).map((name) => html`<${Entity} key=${name} name=${name} onEntity=${onEntity} />`)}</p>`}
      ${own.length > 0 && html`<${Table} look="plain" label="Facts" heads=${["fact", "valid", "id, evidence", "change"]} rows=${own.map((fact) => factRow(fact, tenant, onEntity, onForget, onEdit))} />`}
    <//>
  </section>`;
}

export function Memory({ tenant, onWrite }) {
  const [filter, setFilter] = useState({});
  const [entity, setEntity] = useState("");
  const [version, setVersion] = useState(0);
  const [done, run] = useCall();
  const [edited, setEdited] = useState();
  const [given, setGiven] = useState({});
  const state = [given, (changes) => setGiven((before) => ({ ...before, ...changes }))];
  const show = ({ speaker, session, entity: name = "" }) => {
    setEntity(name);
    setFilter({
      ...(speaker && { speakers: [speaker] }),
      ...(session && { sessions: [session] }),
      ...(name && { entities: [name] }),
    });
  };
  const choose = (name) => {
    const changed = { ...given, entity: name };
    setGiven(changed);
    show(changed);
  };
  const written = () => {
    setVersion((before) => before + 1);
    onWrite();
  };
  const forget = (selector, what) => run(async () => {
    const receipt = await forgetCounted({ tenant, ...selector }, what);
    if (receipt) written();
    return receipt && { receipt };
  });
  const edit = (kind, id) => run(async () => {
    const [method, list] = kind === "segment" ? ["GetSegments", "segments"] : ["GetFacts", "facts"];
    // All of it, since what is not stored again would be lost.
    const { [list]: [item] = [] } = await call(method, { tenant, ids: [id] }, { reveal: true });
    if (!item) throw new Error(`${id} is erased.`);
    setEdited({ kind, item });
    return {};
  });
  const stored = (said) => {
    setEdited(undefined);
    written();
    run(async () => ({ said }));
  };
  const submit = (event) => {
    event.preventDefault();
    show(given);
  };
  const clear = () => {
    setGiven({});
    show({});
  };
  const forgetSpeaker = () => forget({ speaker: given.speaker }, `all that ${given.speaker} said`);
  return html`<form class="card" onSubmit=${submit}>
      <${Field} label="Speaker" name="speaker" state=${state} /><${Field} label="Session" name="session" state=${state} />
      <${Field} label="Entity" name="entity" state=${state} />
      <button class="main">Show</button><button type="button" onClick=${clear}>all</button>
      ${given.speaker && html`<button type="button" onClick=${forgetSpeaker}>forget this speaker</button>`}
    </form>
    <p>${["segment", "fact"].map((kind) => html`<button type="button" key=${kind} onClick=${() => setEdited({ kind, item: {} })}>add a ${kind}</button> `)}</p>
    ${edited && html`<${Editor} key=${edited.item.id ?? edited.kind} ...${edited} tenant=${tenant} onStored=${stored} onClose=${() => setEdited(undefined)} />`}
    <${Outcome} state=${done} said=${done.answer?.said}>${done.answer?.receipt && html`<${Receipt} receipt=${done.answer.receipt} />`}<//>
    <div class="columns memory">
      <${Segments} key=${`t${version}`} tenant=${tenant} filter=${filter} onForget=${forget} onEdit=${edit} />
      <${Facts} key=${`f${version}`} tenant=${tenant} entity=${entity} onEntity=${choose} onForget=${forget} onEdit=${edit} />
    </div>`;
}
