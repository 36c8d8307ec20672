// Adding a turn or a fact, and changing one that is stored.

import { html, useState } from "/ui/vendor/htm-preact-3.1.1.js";
import { call } from "/ui/api.js";
import { Check, Field, Outcome, labelsOf, listOf, useCall, words } from "/ui/parts.js";

/** How a value of ProtoJSON is written into a field, and read from it. */
const FORMS = {
  text: [(value) => value ?? "", (text) => text],
  number: [(value) => String(value ?? ""), (text) => (text ? Number(text) : undefined)],
  time: [(value) => value?.slice(0, 16) ?? "", (text) => (text ? new Date(`${text}Z`).toISOString() : undefined)],
  list: [(value) => (value ?? []).join(", "), listOf],
  labels: [(value) => Object.entries(value ?? {}).map((pair) => pair.join("=")).join(", "), (text) => Object.fromEntries(labelsOf(text))],
};
const TIME = { form: "time", type: "datetime-local" };
const EXPIRY = { name: "expiresAt", label: "Expires (UTC)", ...TIME };
const FIELDS = {
  segment: [
    { name: "text", label: "Text", required: true, wide: true }, { name: "speaker", label: "Speaker" }, { name: "session", label: "Session" },
    { name: "eventTime", label: "Time (UTC)", ...TIME }, { name: "kind", label: "Kind", placeholder: "turn" }, { name: "title", label: "Title" },
    { name: "importance", label: "Importance, 0 to 1", form: "number", type: "number", min: 0, max: 1, step: "any" },
    { name: "labels", label: "Labels", form: "labels", placeholder: "place=Goa" }, { name: "entities", label: "Entities", form: "list", placeholder: "found if empty" }, EXPIRY,
  ],
  fact: [
    { name: "subject", label: "Subject", required: true }, { name: "relation", label: "Relation", required: true }, { name: "object", label: "Object", required: true },
    { name: "sentence", label: "Sentence", wide: true }, { name: "validFrom", label: "Holds from (UTC)", ...TIME }, { name: "validTo", label: "Holds until (UTC)", ...TIME },
    { name: "evidence", label: "Ids of evidence", form: "list", placeholder: "turn-033" }, EXPIRY,
  ],
};
const written = (item, { name, form = "text" }) => FORMS[form][0](item[name]);

/** The item with the fields that were changed; the others stay as they are stored, to the microsecond. */
function changed(kind, item, given) {
  const made = { ...item, sensitive: given.sensitive };
  for (const field of FIELDS[kind]) {
    if (given[field.name] !== written(item, field)) made[field.name] = FORMS[field.form ?? "text"][1](given[field.name]);
  }
  if (given.id) made.id = given.id;
  // Entities of another text are found anew.
  const isStale = kind === "segment" && made.text !== item.text && made.entities === item.entities;
  return isStale ? { ...made, entities: undefined } : made;
}

async function stored(kind, item, tenant) {
  const { outcomes: [outcome] } = await call("Ingest", { tenant, items: [{ [kind]: item, ifVersion: item.version }] });
  if (outcome.violations) throw new Error(outcome.violations.map((each) => `${each.field}: ${each.description}`).join("; "));
  return words(outcome.state, "ITEM_STATE_");
}

/** The form of an item; `item` is empty for a new one. */
export function Editor({ kind, item, tenant, onStored, onClose }) {
  const [state, run] = useCall();
  const [given, setGiven] = useState(() => ({ sensitive: item.sensitive ?? false, ...Object.fromEntries(FIELDS[kind].map((field) => [field.name, written(item, field)])) }));
  const fields = [given, (changes) => setGiven((before) => ({ ...before, ...changes }))];
  const save = (event) => {
    event.preventDefault();
    run(async () => {
      const outcome = await stored(kind, changed(kind, item, given), tenant);
      onStored(`The ${kind} was ${outcome}.`);
      return outcome;
    });
  };
  return html`<form class="card" aria-label=${item.id ? `Edit ${item.id}` : `Add a ${kind}`} onSubmit=${save}>
    <h3>${item.id ? `Edit ${item.id}` : `Add a ${kind}`}</h3>
    <div class="fields">
      ${item.id ? "" : html`<${Field} label="Id" name="id" state=${fields} placeholder="made if empty" />`}
      ${FIELDS[kind].map(({ form, ...field }) => html`<${Field} key=${field.name} state=${fields} ...${field} />`)}
      <${Check} name="sensitive" label="sensitive" state=${fields} />
    </div>
    <button class="main">Store</button><button type="button" onClick=${onClose}>close</button>
    <${Outcome} state=${state} />
  </form>`;
}
