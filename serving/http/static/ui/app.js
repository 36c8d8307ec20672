// The page: who asks, and which view is shown.

import { html, render, useEffect, useState } from "/ui/vendor/htm-preact-3.1.1.js";
import { call, caller } from "/ui/api.js";
import { Ask } from "/ui/ask.js";
import { Audit } from "/ui/audit.js";
import { Compare } from "/ui/compare.js";
import { Keys } from "/ui/keys.js";
import { Memory } from "/ui/memory.js";
import { Service } from "/ui/service.js";
import { Tenants } from "/ui/tenants.js";
import { WhyNot } from "/ui/why.js";

const VIEWS = { ask: ["Ask", Ask], compare: ["Compare", Compare], why: ["Why not", WhyNot], memory: ["Memory", Memory], tenants: ["Tenants", Tenants], keys: ["Keys", Keys], audit: ["Audit", Audit], service: ["Service", Service] };
/** The age from which a memory is one of the past, in milliseconds: "yesterday" is then said of its own time. */
const PAST_MS = 30 * 86_400_000;
const SAMPLE = 'With the sample of `make demo`, the tenant is "demo": ask "When is the wedding?"';

function shownView() {
  const name = location.hash.slice(1);
  return Object.hasOwn(VIEWS, name) ? name : "ask";
}

/** The minute after a time, as the field of a form has it. */
function minuteAfter(time) {
  return new Date(Date.parse(time) + 60_000).toISOString().slice(0, 16);
}

function go(view) {
  location.hash = view;
}

function App() {
  const [view, setView] = useState(shownView());
  const [opened, setOpened] = useState([view]);
  const [tenant, setTenant] = useState(new URLSearchParams(location.search).get("tenant") ?? "demo");
  const [key, setKey] = useState("");
  const [profiles, setProfiles] = useState([]);
  const [stored, setStored] = useState();
  const [question, setQuestion] = useState({ timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone, kind: "segment" });
  caller.key = key;
  const set = (changes) => setQuestion((before) => ({ ...before, ...changes }));
  useEffect(() => {
    let isCurrent = true;
    const read = (counts) => {
      if (!isCurrent) return;
      const { newestEventTime: newest } = counts ?? {};
      setStored(counts);
      set({ asOf: newest && Date.now() - Date.parse(newest) > PAST_MS ? minuteAfter(newest) : "" });
    };
    call("GetStats", { tenant }).then((answer) => read(answer.tenant), () => read(undefined));
    return () => { isCurrent = false; };
  }, [tenant, key]);
  useEffect(() => {
    const changed = () => {
      setView(shownView());
      setOpened((before) => [...new Set([...before, shownView()])]);
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    const names = (answer) => (answer.profiles ?? []).map((each) => each.name).filter((name) => name !== "default");
    call("ListProfiles", {}).then((answer) => setProfiles(names(answer)), () => setProfiles([]));
  }, [key]);
  const chooseTenant = (name) => {
    setTenant(name);
    history.replaceState(null, "", `?tenant=${encodeURIComponent(name)}${location.hash}`);
  };
  const openTenant = (name) => {
    chooseTenant(name);
    go("memory");
  };
  const reread = () => call("GetStats", { tenant }).then((answer) => setStored(answer.tenant), () => undefined);
  return html`<header>
      <h1>Trivium</h1>
      <nav aria-label="Views">${Object.entries(VIEWS).map(([name, [label]]) => html`<a href=${`#${name}`} aria-current=${view === name ? "page" : undefined}>${label}</a>`)}</nav>
      <form onSubmit=${(event) => event.preventDefault()}>
        <label>Tenant<input name="tenant" value=${tenant} onChange=${(event) => chooseTenant(event.target.value)} /></label>
        <label>Key or token<input type="password" name="key" autocomplete="off" value=${key} onChange=${(event) => setKey(event.target.value)} /></label>
      </form>
    </header>
    <div role="status">${stored && !stored.textSearchConfig && html`<p class="notice">There is no tenant “${tenant}”. The first write makes it.</p>`}</div>
    <main>${Object.entries(VIEWS).map(([name, [label, View]]) => opened.includes(name) && html`<div key=${`${name} ${tenant} ${key}`} hidden=${view !== name}>
      <h2>${label}</h2>
      <${View} tenant=${tenant} profiles=${profiles} question=${[question, set]} go=${go} shown=${view === name} sample=${SAMPLE} onTenant=${openTenant} onWrite=${reread} />
    </div>`)}</main>
    <footer class="quiet">Times are UTC. <a href="/docs">All routes</a></footer>`;
}

render(html`<${App} />`, document.getElementById("app"));
