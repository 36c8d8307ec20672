// Lists the operations of openapi.json, each with a form that calls it.
"use strict";

const MAX_DEPTH = 4;

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made[key] = value;
  made.append(...children);
  return made;
}

/** An example of a schema: its example, or empty values of its fields. */
function example(schema, schemas, depth = 0) {
  if (schema.$ref) return example(schemas[schema.$ref.split("/").pop()], schemas, depth);
  if (schema.example !== undefined) return schema.example;
  if (schema.default !== undefined) return schema.default;
  if (schema.type === "object") {
    if (depth >= MAX_DEPTH) return {};
    const fields = Object.entries(schema.properties ?? {});
    return Object.fromEntries(fields.map(([name, of]) => [name, example(of, schemas, depth + 1)]));
  }
  if (schema.type === "array") return [];
  if (schema.type === "boolean") return false;
  if (schema.type === "integer" || schema.type === "number") return 0;
  return "";
}

const REQUESTS = {
  retrieve: { tenant: "demo", query: "When is the wedding?", limit: 3, briefing: {} },
  ingest: { tenant: "demo", items: [{ segment: { id: "t1", speaker: "Mara", text: "We moved to Lisbon in May." } }] },
  forget: { tenant: "demo", ids: { segment_ids: ["t1"] } },
};

function form(verb, path, operation, schemas) {
  const inputs = new Map();
  const fields = [];
  for (const parameter of operation.parameters ?? []) {
    const input = element("input", { name: parameter.name, required: Boolean(parameter.required) });
    inputs.set(parameter, input);
    fields.push(element("label", {}, parameter.name, input, element("small", {}, parameter.description ?? parameter.schema.description ?? "")));
  }
  const content = operation.requestBody?.content["application/json"];
  const body = element("textarea", { rows: 8, spellcheck: false });
  if (content) {
    body.value = JSON.stringify(REQUESTS[operation.operationId] ?? example(content.schema, schemas), null, 1);
    fields.push(element("label", {}, "JSON", body));
  }
  const output = element("pre", { hidden: true, tabIndex: 0 });
  output.setAttribute("aria-live", "polite");
  const made = element("form", {}, ...fields, element("button", {}, "Send"), output);
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    output.hidden = false;
    output.textContent = "…";
    output.textContent = await send(verb, path, inputs, content ? body.value : undefined);
  });
  return made;
}

async function send(verb, path, inputs, body) {
  const query = new URLSearchParams();
  for (const [parameter, { value }] of inputs) {
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (value) {
      const values = parameter.schema.type === "array" ? value.split(",") : [value];
      for (const each of values) query.append(parameter.name, each.trim());
    }
  }
  const headers = {};
  const credentials = document.getElementById("credentials").value;
  if (credentials) headers.authorization = `Bearer ${credentials}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const began = performance.now();
  try {
    const url = query.size ? `${path}?${query}` : path;
    const response = await fetch(url, { method: verb.toUpperCase(), headers, body });
    const answer = JSON.stringify(await response.json(), null, 1);
    return `HTTP ${response.status} in ${Math.round(performance.now() - began)} ms\n${answer}`;
  } catch (error) {
    return `The service did not answer: ${error.message}`;
  }
}

async function start() {
  const described = await (await fetch("/openapi.json")).json();
  const list = document.getElementById("operations");
  for (const [path, verbs] of Object.entries(described.paths)) {
    for (const [verb, operation] of Object.entries(verbs)) {
      const title = element("summary", {}, element("code", {}, `${verb.toUpperCase()} ${path}`), ` ${operation.summary}`);
      const made = element("details", {}, title);
      made.addEventListener("toggle", () => {
        if (made.children.length === 1) {
          made.append(element("small", {}, operation.description ?? ""), form(verb, path, operation, described.components.schemas));
        }
      });
      list.append(made);
    }
  }
}

start();
