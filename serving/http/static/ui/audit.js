// Who changed what.

import { html, useEffect, useState } from "/ui/vendor/htm-preact-3.1.1.js";
import { call } from "/ui/api.js";
import { Outcome, Table, count, useCall } from "/ui/parts.js";

const PAGE = 100;

/** What a call changed, such as "2 created, 1 updated". */
function change(entry) {
  const counts = [[entry.createdCount, "created"], [entry.updatedCount, "updated"], [entry.erasedCount, "erased"]];
  const said = counts.filter(([number]) => number).map(([number, what]) => `${Number(number).toLocaleString("en")} ${what}`);
  if (entry.keyId) said.push(`key ${entry.keyId}`);
  return said.join(", ") || "nothing";
}

export function Audit({ tenant, shown }) {
  const [state, run] = useCall();
  const [ofAll, setOfAll] = useState(false);
  const load = (token = "", before = []) => run(async () => {
    const page = await call("ListAuditEntries", { tenant: ofAll ? "" : tenant, pageSize: PAGE, pageToken: token });
    return { entries: [...before, ...(page.entries ?? [])], next: page.nextPageToken };
  });
  useEffect(() => { if (shown) load(); }, [shown, ofAll]);
  const { entries = [], next } = state.answer ?? {};
  const row = (each) => [html`<span class="date">${each.at.slice(0, 19).replace("T", " ")}</span>`, each.caller, each.rpc, each.tenant ?? "", html`<span class="number">${change(each)}</span>`];
  return html`<form class="card" onSubmit=${(event) => event.preventDefault()}>
      <label class="inline"><input type="checkbox" name="ofAll" checked=${ofAll} onChange=${(event) => setOfAll(event.target.checked)} /> changes of all tenants, and keys</label>
    </form>
    <${Outcome} keep state=${state} said=${state.answer && (entries.length ? `${count(entries.length, "change")}${next ? ", and more" : ""}` : "No changes are logged.")}>
      ${entries.length > 0 && html`<section class="card"><${Table} look="plain list" label="Changes" heads=${["time (UTC)", "who", "call", "tenant", "what"]} rows=${entries.map(row)} /></section>`}
      ${next && html`<button type="button" onClick=${() => load(next, entries)}>more</button>`}
    <//>`;
}
