// Calls RPCs by Connect. What is sensitive is left out of answers until somebody wants to see it.

const SERVICES = {
  Retrieve: "RetrievalService", Compare: "RetrievalService", ExplainAbsence: "RetrievalService",
  ListProfiles: "RetrievalService", Forget: "IngestService", GetSegments: "CatalogService",
  GetFacts: "CatalogService", ListSegments: "CatalogService", ListFacts: "CatalogService", GetStats: "CatalogService",
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

/** Milliseconds of a duration of ProtoJSON, such as "0.012s". */
export function milliseconds(duration) {
  return duration ? Number.parseFloat(duration) * 1000 : 0;
}

/** The request of what is typed into the form of a question; throws if the overrides are not JSON. */
export function request(question, tenant) {
  const made = { tenant, query: question.query };
  if (question.profile) made.profile = question.profile;
  if (question.limit) made.limit = Number(question.limit);
  if (question.budget) made.timeBudget = `${Number(question.budget) / 1000}s`;
  if (question.asOf) made.asOf = new Date(`${question.asOf}Z`).toISOString();
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

export function python(asked) {
  const port = Number(document.querySelector("meta[name=grpc-port]").content) || 9000;
  const options = [
    literal(asked.query),
    asked.limit && `limit=${asked.limit}`,
    asked.profile && `profile=${literal(asked.profile)}`,
    asked.asOf && `as_of=datetime.fromisoformat(${literal(asked.asOf.replace("Z", "+00:00"))})`,
    asked.timeZone && `time_zone=${literal(asked.timeZone)}`,
    asked.profileOverrides && `profile_overrides=${literal(asked.profileOverrides)}`,
    asked.timeBudget && `timeout=${Number.parseFloat(asked.timeBudget)}`,
    "explain=True",
    "briefing=BriefingOptions()",
  ].filter(Boolean);
  const key = caller.key ? ", token=os.environ[\"KEY\"]" : "";
  return `${caller.key ? "import os\n" : ""}${asked.asOf ? "from datetime import datetime\n" : ""}from trivium import BriefingOptions, Client

with Client(${literal(`${location.hostname}:${port}`)}, tenant=${literal(asked.tenant)}${key}) as memory:
    found = memory.retrieve(
        ${options.join(",\n        ")},
    )
    for hit in found.hits:
        print(hit.rank, round(hit.score, 4), hit.text)
    print(found.briefing)
`;
}
