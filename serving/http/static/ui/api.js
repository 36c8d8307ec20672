// Calls RPCs by Connect. What is sensitive is left out of answers until somebody wants to see it.

import { count, labelsOf, listOf } from "/ui/texts.js";

const SERVICES = {
  Retrieve: "RetrievalService", Compare: "RetrievalService", ExplainAbsence: "RetrievalService",
  ListProfiles: "RetrievalService", Ingest: "IngestService", Forget: "IngestService", GetSegments: "CatalogService",
  GetFacts: "CatalogService", ListSegments: "CatalogService", ListFacts: "CatalogService", GetStats: "CatalogService",
  ListTenants: "AdminService", ListKeys: "AdminService", CreateKey: "AdminService", RevokeKey: "AdminService", ListAuditEntries: "AdminService",
};

export const caller = { key: "" };

export function path(method) {
  return `/trivium.v1.${SERVICES[method]}/${method}`;
}

export async function call(method, request, { reveal = false } = {}) {
  const headers = { "content-type": "application/json" };
  if (caller.key) headers.authorization = `Bearer ${caller.key}`;
  if (!reveal) headers["trivium-hide-sensitive"] = "1";
  let response;
  try {
    response = await fetch(path(method), { method: "POST", headers, body: JSON.stringify(request) });
  } catch {
    throw new Error("The service does not answer. Is it running?");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(`${answer.code ?? response.status}: ${answer.message ?? "no answer"}`);
  return answer;
}

/** Erases what is selected once somebody has seen how much that is; undefined if that is too much. */
export async function forgetCounted(erasure, what) {
  const { segmentCount = 0, factCount = 0 } = await call("Forget", { ...erasure, dryRun: true });
  const counted = `${count(segmentCount, "segment")} and ${count(factCount, "fact")}`;
  if (!confirm(`Erase ${what} from every store: ${counted}? This cannot be undone.`)) return undefined;
  return call("Forget", erasure);
}

/** Milliseconds of a duration of ProtoJSON, such as "0.012s". */
export function milliseconds(duration) {
  return duration ? Number.parseFloat(duration) * 1000 : 0;
}

const instant = (text) => new Date(`${text}Z`).toISOString();

/** The filter of what is typed into the form; lists are separated by commas. */
function filterOf({ kinds = "", speakers = "", sessions = "", entities = "", labels = "", from, until }) {
  const filter = { kinds: listOf(kinds), speakers: listOf(speakers), sessions: listOf(sessions), entities: listOf(entities) };
  const accepted = Map.groupBy(labelsOf(labels), ([key]) => key);
  filter.labels = [...accepted].map(([key, pairs]) => ({ key, values: pairs.map(([, value]) => value) }));
  const given = Object.fromEntries(Object.entries(filter).filter(([, values]) => values.length > 0));
  if (from || until) given.eventTime = { ...(from && { start: instant(from) }), ...(until && { end: instant(until) }) };
  return given;
}

/** The request of what is typed into the form of a question; throws if the overrides are not JSON. */
export function request(question, tenant) {
  const made = { tenant, query: question.query };
  const filter = filterOf(question);
  if (Object.keys(filter).length > 0) made.filter = filter;
  if (question.profile) made.profile = question.profile;
  if (question.limit) made.limit = Number(question.limit);
  if (question.budget) made.timeBudget = `${Number(question.budget) / 1000}s`;
  if (question.asOf) made.asOf = instant(question.asOf);
  if (question.timeZone) made.timeZone = question.timeZone;
  if (question.overrides) made.profileOverrides = fields(question.overrides, "overrides");
  return made;
}

export function fields(text, what) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`The ${what} are not JSON, such as {"legs": {"graph": {"weight": 0}}}.`);
  }
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function curl(asked) {
  const key = caller.key ? ' -H "authorization: Bearer $KEY"' : "";
  return `curl ${quoted(location.origin + path("Retrieve"))}${key} -H 'content-type: application/json' \\\n  -d ${quoted(JSON.stringify(asked))}`;
}

/** A value of JSON as Python writes it. */
function literal(value) {
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (value && typeof value === "object") {
    return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${literal(each)}`).join(", ")}}`;
  }
  const names = new Map([[true, "True"], [false, "False"], [null, "None"]]);
  return names.get(value) ?? JSON.stringify(value);
}

const pythonTime = (time) => `datetime.fromisoformat(${literal(time.replace("Z", "+00:00"))})`;

function pythonFilter({ labels = [], eventTime, ...lists }) {
  const options = Object.entries(lists).map(([name, values]) => `${name}=${literal(values)}`);
  if (labels.length > 0) options.push(`labels=${literal(Object.fromEntries(labels.map((each) => [each.key, each.values])))}`);
  if (eventTime) options.push(`event_time=TimeRange(${Object.entries(eventTime).map(([name, time]) => `${name}=${pythonTime(time)}`).join(", ")})`);
  return `Filter(${options.join(", ")})`;
}

export function python(asked) {
  const port = Number(document.querySelector("meta[name=grpc-port]").content) || 9000;
  const options = [
    literal(asked.query),
    asked.filter && `filter=${pythonFilter(asked.filter)}`,
    asked.limit && `limit=${asked.limit}`,
    asked.profile && `profile=${literal(asked.profile)}`,
    asked.asOf && `as_of=${pythonTime(asked.asOf)}`,
    asked.timeZone && `time_zone=${literal(asked.timeZone)}`,
    asked.profileOverrides && `profile_overrides=${literal(asked.profileOverrides)}`,
    asked.timeBudget && `timeout=${Number.parseFloat(asked.timeBudget)}`,
    "explain=True",
    "briefing=BriefingOptions()",
  ].filter(Boolean);
  const names = ["BriefingOptions", "Client", asked.filter && "Filter", asked.filter?.eventTime && "TimeRange"].filter(Boolean);
  const key = caller.key ? ", token=os.environ[\"KEY\"]" : "";
  return `${caller.key ? "import os\n" : ""}${asked.asOf || asked.filter?.eventTime ? "from datetime import datetime\n" : ""}from trivium import ${names.join(", ")}

with Client(${literal(`${location.hostname}:${port}`)}, tenant=${literal(asked.tenant)}${key}) as memory:
    found = memory.retrieve(
        ${options.join(",\n        ")},
    )
    for hit in found.hits:
        print(hit.rank, round(hit.score, 4), hit.text)
    print(found.briefing)
`;
}
