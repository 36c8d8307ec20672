// All tenants, with what they hold.

import { html, useEffect } from "/ui/vendor/htm-preact-3.1.1.js";
import { call, forgetCounted } from "/ui/api.js";
import { Outcome, Receipt, Table, bytes, count, day, minute, useCall } from "/ui/parts.js";

const PAGE = 100;

export function Tenants({ tenant, onTenant, shown }) {
  const [state, run] = useCall();
  const [forgotten, runForget] = useCall();
  const load = (token = "", before = []) => run(async () => {
    const page = await call("ListTenants", { pageSize: PAGE, pageToken: token });
    return { tenants: [...before, ...(page.tenants ?? [])], next: page.nextPageToken };
  });
  useEffect(() => { if (shown) load(); }, [shown]);
  const forget = (name) => runForget(async () => {
    const receipt = await forgetCounted({ tenant: name, everything: true }, `everything of the tenant ${name}`);
    if (receipt) load();
    return receipt;
  });
  const { tenants = [], next } = state.answer ?? {};
  const row = (each) => [
    html`<button type="button" class="entity" aria-current=${each.name === tenant ? "true" : undefined} onClick=${() => onTenant(each.name)}>${each.name}</button>`,
    Number(each.segmentCount ?? 0).toLocaleString("en"), Number(each.factCount ?? 0).toLocaleString("en"), html`<span class="number">${bytes(each.textBytes)}</span>`,
    html`<span class="date">${day(each.newestEventTime)}</span>`, html`<span class="date">${minute(each.updatedAt)}</span>`,
    [each.textSearchConfig, each.timeZone].join(", "),
    html`<button type="button" aria-label=${`forget the tenant ${each.name}`} onClick=${() => forget(each.name)}>forget</button>`,
  ];
  return html`<${Outcome} state=${forgotten}>${forgotten.answer && html`<${Receipt} receipt=${forgotten.answer} />`}<//>
    <${Outcome} keep state=${state} said=${state.answer && `${count(tenants.length, "tenant")}${next ? ", and more" : ""}`}>
      ${tenants.length > 0 && html`<section class="card"><${Table} look="plain list" label="Tenants" heads=${["tenant", "segments", "facts", "text", "newest turn", "last write", "language, zone", "erase"]} rows=${tenants.map(row)} /></section>`}
      ${next && html`<button type="button" onClick=${() => load(next, tenants)}>more</button>`}
    <//>`;
}
