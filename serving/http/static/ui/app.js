// The page: who asks, and which view is shown.

import { html, render, useEffect, useState } from "/ui/vendor/htm-preact-3.1.1.js";
import { call, caller } from "/ui/api.js";
import { Ask, Compare, WhyNot } from "/ui/ask.js";
import { Memory } from "/ui/memory.js";
import { Service } from "/ui/service.js";

const VIEWS = { ask: ["Ask", Ask], compare: ["Compare", Compare], why: ["Why not", WhyNot], memory: ["Memory", Memory], service: ["Service", Service] };

function App() {
  const shown = () => (location.hash.slice(1) in VIEWS ? location.hash.slice(1) : "ask");
  const [view, setView] = useState(shown());
  const [tenant, setTenant] = useState(new URLSearchParams(location.search).get("tenant") ?? "demo");
  const [key, setKey] = useState("");
  const [profiles, setProfiles] = useState([]);
  Object.assign(caller, { tenant, key });
  useEffect(() => {
    const changed = () => setView(shown());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    call("ListProfiles", {}).then((answer) => setProfiles((answer.profiles ?? []).filter((each) => each.name !== "default")), () => setProfiles([]));
  }, [key]);
  const View = VIEWS[view][1];
  return html`<header>
      <h1>Trivium</h1>
      <nav aria-label="Views">${Object.entries(VIEWS).map(([name, [label]]) => html`<button aria-current=${view === name ? "page" : undefined} onClick=${() => { location.hash = name; }}>${label}</button>`)}</nav>
      <label>Tenant<input value=${tenant} onChange=${(event) => setTenant(event.target.value)} /></label>
      <label>Key or token<input type="password" autocomplete="off" value=${key} onChange=${(event) => setKey(event.target.value)} /></label>
    </header>
    <main><${View} key=${`${view} ${tenant} ${key}`} tenant=${tenant} profiles=${profiles} /></main>`;
}

render(html`<${App} />`, document.getElementById("app"));
