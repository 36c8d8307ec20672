// Calls RPCs by Connect. What is sensitive is left out of answers until somebody wants to see it.

const SERVICES = {
  Retrieve: "RetrievalService", Compare: "RetrievalService", ExplainAbsence: "RetrievalService",
  ListProfiles: "RetrievalService", Forget: "IngestService", GetSegments: "CatalogService",
  ListSegments: "CatalogService", ListFacts: "CatalogService", GetStats: "CatalogService",
};

export const caller = { tenant: "", key: "" };

export class CallError extends Error {}

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
    throw new CallError("The service does not answer. Is it running?");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new CallError(`${answer.code ?? response.status}: ${answer.message ?? "no answer"}`);
  return answer;
}

/** Milliseconds of a duration of ProtoJSON, such as "0.012s". */
export function milliseconds(duration) {
  return duration ? Number.parseFloat(duration) * 1000 : 0;
}
