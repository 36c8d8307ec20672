// What the views share.

import { html, useState } from "/ui/vendor/htm-preact-3.1.1.js";
import { call } from "/ui/api.js";

export const COLOURS = 7;

export function day(time) {
  return time ? time.slice(0, 16).replace("T", " ") : "";
}

/** Runs a call and keeps its answer, its failure, and whether it is running. */
export function useCall() {
  const [state, setState] = useState({});
  const run = async (work) => {
    setState((before) => ({ ...before, busy: true }));
    try {
      setState({ answer: await work() });
    } catch (error) {
      setState({ failure: error.message });
    }
  };
  return [state, run];
}

export function Outcome({ state, children }) {
  return html`<div aria-live="polite">
    ${state.busy && html`<p class="quiet">Asking…</p>`}
    ${state.failure && html`<p class="failure">${state.failure}</p>`}
    ${state.answer && children}
  </div>`;
}

/** The text of a segment, or of a fact; a sensitive one is fetched when it is wanted. */
export function Text({ segment, fact, tenant }) {
  const [shown, setShown] = useState();
  if (fact) return html`<span>${fact.sentence || `${fact.subject} ${fact.relation} ${fact.object}`}</span>`;
  if (!segment.sensitive) return html`<span>${segment.text}</span>`;
  if (shown !== undefined) return html`<span>${shown}</span>`;
  const reveal = async () => {
    const { segments = [] } = await call("GetSegments", { tenant, ids: [segment.id] }, { reveal: true });
    setShown(segments[0]?.text ?? "(erased)");
  };
  return html`<button onClick=${reveal}><span class="covered" aria-hidden="true">▒▒▒▒▒▒</span> show sensitive text</button>`;
}

export function idOf(item = {}) {
  return item.segmentId ?? item.factId ?? "";
}

export function Field({ label, wide, ...input }) {
  return html`<label class=${wide ? "wide" : ""}>${label}<input ...${input} /></label>`;
}

export function values(event) {
  event.preventDefault();
  return Object.fromEntries(new FormData(event.target));
}

export function Copy({ label, text }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
  };
  return html`<button type="button" onClick=${copy}>${done ? "copied" : label}</button>`;
}
