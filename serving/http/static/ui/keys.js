// API keys: those that there are, a new one, which is shown once, and their end.

import { html, useEffect, useState } from "/ui/vendor/htm-preact-3.1.1.js";
import { call, caller } from "/ui/api.js";
import { Check, Copy, Field, Outcome, Table, count, day, minute, useCall, words } from "/ui/parts.js";

const PAGE = 100;
const ROLES = ["reader", "writer", "eraser", "admin"];
const DAY_MS = 86_400_000;

function stateOf(key) {
  if (key.revokedAt) return `revoked ${day(key.revokedAt)}`;
  if (!key.expiresAt) return "valid";
  return `${Date.parse(key.expiresAt) > Date.now() ? "expires" : "expired"} ${day(key.expiresAt)}`;
}

/** What is typed into the form, as a CreateKeyRequest. */
function asked(given) {
  return {
    roles: ROLES.filter((role) => given[role]).map((role) => `ROLE_${role.toUpperCase()}`),
    ...(given.allTenants ? { allTenants: true } : { tenant: given.keyTenant }),
    note: given.note ?? "",
    ...(given.days && { expiresAt: new Date(Date.now() + Number(given.days) * DAY_MS).toISOString() }),
  };
}

function NewKey({ secret, onClose }) {
  return html`<section class="card" aria-label="The new key"><h3>The new key, which is shown only now</h3>
    <pre tabindex="0" aria-label="The new key">${secret}</pre>
    <p><${Copy} text=${secret} /> <button type="button" onClick=${onClose}>I have stored it</button></p>
    <p class="quiet">It is valid after two seconds, as the header “Authorization: Bearer” or as the token of a client.</p>
  </section>`;
}

export function Keys({ tenant, shown }) {
  const [state, run] = useCall();
  const [made, runMake] = useCall();
  const [secret, setSecret] = useState("");
  const [given, setGiven] = useState({ reader: true, keyTenant: tenant });
  const fields = [given, (changes) => setGiven((before) => ({ ...before, ...changes }))];
  const load = (token = "", before = []) => run(async () => {
    const page = await call("ListKeys", { pageSize: PAGE, pageToken: token });
    return { keys: [...before, ...(page.keys ?? [])], next: page.nextPageToken, accepted: page.accepted ?? false };
  });
  useEffect(() => { if (shown) load(); }, [shown]);
  const make = (event) => {
    event.preventDefault();
    runMake(async () => {
      const answer = await call("CreateKey", asked(given));
      setSecret(answer.secret);
      load();
    });
  };
  const revoke = (key) => runMake(async () => {
    const isOwn = caller.key.startsWith(`trv_${key.id}_`);
    if (!confirm(`Revoke the key ${key.id} ${key.note ?? ""}? ${isOwn ? "It is the key of this page. " : ""}Its calls are rejected within five seconds.`)) return;
    await call("RevokeKey", { id: key.id });
    load();
  });
  const { keys = [], next, accepted } = state.answer ?? {};
  const row = (key) => [
    key.id, (key.roles ?? []).map((role) => words(role, "ROLE_")).join(", "), key.tenant ? html`“${key.tenant}”` : "all", key.note ?? "",
    html`<span class="date">${minute(key.createdAt)}</span>`, html`<span class="date">${stateOf(key)}</span>`,
    key.revokedAt ? "" : html`<button type="button" aria-label=${`revoke ${key.id}`} onClick=${() => revoke(key)}>revoke</button>`,
  ];
  return html`${state.answer && !accepted && html`<p class="notice">The service accepts no keys: start it with TRIVIUM_AUTH__KEYS=true. “trivium-server keys create” makes the first one.</p>`}
    ${accepted && html`<form class="card" onSubmit=${make}>
      <fieldset><legend>Roles</legend>${ROLES.map((role) => html`<${Check} key=${role} name=${role} label=${role} state=${fields} />`)}</fieldset>
      <${Field} label="The only tenant" name="keyTenant" state=${fields} required disabled=${given.allTenants} />
      <${Check} name="allTenants" label="all tenants" state=${fields} />
      <${Field} label="Days; empty: for good" name="days" state=${fields} type="number" min="1" max="36500" />
      <${Field} label="Who uses it" name="note" state=${fields} maxlength="128" />
      <button class="main">Make a key</button>
    </form>`}
    <${Outcome} state=${made} />
    ${secret && html`<${NewKey} secret=${secret} onClose=${() => setSecret("")} />`}
    <${Outcome} keep state=${state} said=${state.answer && `${count(keys.length, "key")}${next ? ", and more" : ""}`}>
      ${keys.length > 0 && html`<section class="card"><${Table} look="plain list" label="Keys" heads=${["id", "roles", "tenant", "note", "made", "state", "revoke"]} rows=${keys.map(row)} /></section>`}
      ${next && html`<button type="button" onClick=${() => load(next, keys)}>more</button>`}
    <//>`;
}
