// What the views share.

import { html, useEffect, useRef, useState } from "/ui/vendor/htm-preact-3.1.1.js";
import { call } from "/ui/api.js";
import { count } from "/ui/texts.js";

export * from "/ui/texts.js";

const LEGS = [
  "lexical", "dense", "context", "facts", "graph", "related", "replies", "temporal", "holding", "important",
];

/** The class that gives a leg its colour, the same in all views. */
export function colour(leg) {
  return `c${LEGS.includes(leg) ? LEGS.indexOf(leg) : LEGS.length}`;
}

/** Runs calls, and keeps the last answer, the failure of the last call, and whether one is running. */
export function useCall() {
  const [state, setState] = useState({});
  const latest = useRef(0);
  const run = async (work) => {
    const number = ++latest.current;
    const finish = (outcome) => number === latest.current && setState((before) => ({ answer: before.answer, ...outcome }));
    setState((before) => ({ ...before, busy: true }));
    try {
      finish({ answer: await work() });
    } catch (error) {
      finish({ failure: error.message });
    }
  };
  return [state, run];
}

/** What became of a call: only this is read aloud, since answers are long. */
export function Outcome({ state, children, keep = false, said = "" }) {
  return html`<div role="status">
      ${state.failure ? html`<p class="failure">${state.failure}</p>` : state.busy ? html`<p class="quiet">Loading…</p>` : said && html`<p>${said}</p>`}
    </div>
    ${state.answer && (keep || !state.failure) && html`<div class=${state.failure || state.busy ? "stale" : ""}>${children}</div>`}`;
}

const said = ({ text, sentence, subject, relation, object }) => text ?? (sentence || `${subject} ${relation} ${object}`);

/** The text of a segment, or of a fact; a sensitive one is fetched when somebody wants it. */
export function Text({ segment, fact, tenant }) {
  const [shown, setShown] = useState();
  const [failure, setFailure] = useState("");
  const item = segment ?? fact;
  if (!item.sensitive) return html`<span>${said(item)}</span>`;
  if (shown !== undefined) return html`<span>${shown}</span>`;
  const reveal = async () => {
    try {
      const { segments = [], facts = [] } = await call(segment ? "GetSegments" : "GetFacts", { tenant, ids: [item.id] }, { reveal: true });
      const [found] = [...segments, ...facts];
      setShown(found ? said(found) : "(erased)");
    } catch (error) {
      setFailure(error.message);
    }
  };
  return html`<button type="button" class="covered" onClick=${reveal}><span aria-hidden="true">▒▒▒▒▒▒▒</span> show sensitive ${segment ? "text" : "fact"}</button>${failure && html` <span class="failure">${failure}</span>`}`;
}

export function Field({ label, wide, state, name, ...input }) {
  const [given, set] = state;
  return html`<label class=${wide ? "wide" : ""}>${label}<input name=${name} value=${given[name] ?? ""} onInput=${(event) => set({ [name]: event.target.value })} ...${input} /></label>`;
}

export function Check({ label, state, name }) {
  const [given, set] = state;
  return html`<label class="inline"><input type="checkbox" name=${name} checked=${given[name] ?? false} onChange=${(event) => set({ [name]: event.target.checked })} /> ${label}</label>`;
}

export function Choice({ label, state, name, options }) {
  const [given, set] = state;
  return html`<label>${label}<select name=${name} value=${given[name] ?? ""} onChange=${(event) => set({ [name]: event.target.value })}>
    ${options.map(([value, text]) => html`<option value=${value}>${text}</option>`)}
  </select></label>`;
}

const FILTERS = [
  { label: "Kinds", name: "kinds", placeholder: "turn, note" }, { label: "Speakers", name: "speakers", placeholder: "Nora, Idris" }, { label: "Sessions", name: "sessions" },
  { label: "Entities", name: "entities" }, { label: "Labels", name: "labels", placeholder: "place=Goa, place=Rome" },
  { label: "From (UTC)", name: "from", type: "datetime-local" }, { label: "Until (UTC)", name: "until", type: "datetime-local" },
];

/** The form of a question, which all views share that ask one. */
export function Question({ state, profiles, onAsk, button, children }) {
  const submit = (event) => {
    event.preventDefault();
    onAsk();
  };
  return html`<form class="card" onSubmit=${submit}>
    <${Field} label="Question" name="query" state=${state} required wide />
    <button class="main">${button}</button>
    <div class="fields">
      <${Choice} label="Profile" name="profile" state=${state} options=${[["", "default"], ...profiles.map((name) => [name, name])]} />
      <${Field} label="Limit" name="limit" state=${state} type="number" min="1" max="100" placeholder="10" />
      <${Field} label="Budget, ms" name="budget" state=${state} type="number" min="1" max="30000" placeholder="2000" />
      <${Field} label="As of (UTC)" name="asOf" state=${state} type="datetime-local" />
      <${Field} label="Time zone" name="timeZone" state=${state} placeholder="UTC" />
      <${Field} label="Overrides (JSON)" name="overrides" state=${state} placeholder='{"legs": {"graph": {"weight": 0}}}' />
      ${children}
    </div>
    <details class="filter" open=${FILTERS.some(({ name }) => state[0][name])}><summary>Filter</summary><div class="fields">
      ${FILTERS.map((field) => html`<${Field} key=${field.name} state=${state} ...${field} />`)}
    </div></details>
  </form>`;
}

/** What an erasure removed, read aloud when it is there. */
export function Receipt({ receipt }) {
  const heading = useRef();
  useEffect(() => { heading.current?.focus(); }, [receipt]);
  const rows = (receipt.receipts ?? []).map((each) => [each.store, each.removedCount ?? 0, each.remainingCount ?? 0, each.verified ? "yes" : `no: ${each.reason ?? ""}`]);
  return html`<section class="card"><h3 tabindex="-1" ref=${heading}>Receipt: ${count(receipt.segmentCount ?? 0, "segment")} and ${count(receipt.factCount ?? 0, "fact")} were erased</h3>
    <${Table} label="Receipt" heads=${["store", "removed", "still there", "verified"]} rows=${rows} />
  </section>`;
}

export function Copy({ text }) {
  const [done, setDone] = useState();
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(text);
  };
  // Browsers have no clipboard for pages that came without TLS from another machine.
  return navigator.clipboard && html`<button type="button" onClick=${copy}>${done === text ? "copied" : "copy"}</button>`;
}

/** Text that can be copied, such as a command. */
export function Listing({ title, text, open }) {
  return html`<details class="card" open=${open}><summary>${title}</summary><${Copy} text=${text} /><pre tabindex="0" aria-label=${title}>${text}</pre></details>`;
}

/** A table that scrolls by itself where it is too wide. */
export function Table({ label, heads, rows, look = "" }) {
  return html`<div class=${`scroll ${look}`} tabindex="0" role="region" aria-label=${label}><table>
    ${heads && html`<thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>`}
    <tbody>${rows.map(([name, ...cells]) => html`<tr><th scope="row">${name}</th>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}
