// A support desk that remembers its customers, over HTTP and JSON, without any package:
//
//   node examples/support_desk.ts [http://127.0.0.1:8000]      (Node.js 22.18 or later)
//
// Each customer is a tenant. A ticket is stored; before somebody answers the next one, the desk
// shows what helps with it: the block for a language model, or for a person.

const base = process.argv[2] ?? "http://127.0.0.1:8000";
const RECALL_S = 0.5;

interface Ticket {
  customer: string;
  id: string;
  said: string;
  time: string;
}

class RefusedError extends Error {}

/** Calls a route; throws what the service says if it refuses. */
async function post(route: string, body: object): Promise<Record<string, unknown>> {
  const answer = await fetch(`${base}/v1/${route}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(30_000),
  });
  const read = (await answer.json()) as Record<string, unknown>;
  if (!answer.ok) throw new RefusedError(`${route}: ${answer.status} ${JSON.stringify(read)}`);
  return read;
}

/** Stores a ticket; returns the token with which a question waits for it. */
async function store({ customer, id, said, time }: Ticket): Promise<string> {
  const segment = { id, speaker: customer, text: said, event_time: time };
  const written = await post("ingest", { tenant: customer, items: [{ segment }] });
  return String(written["consistency_token"]);
}

/** What is known that helps with a ticket; empty if nothing is, or not in time. */
async function known(customer: string, said: string, token: string): Promise<string> {
  const found = await post("retrieve", {
    tenant: customer,
    query: said,
    consistency_token: token,
    time_budget: `${RECALL_S}s`,
    briefing: {},
  });
  return String(found["briefing"]);
}

const tickets: Ticket[] = [
  {
    customer: "desk-ana",
    id: "ticket-1",
    said: "The coffee machine that I bought in March leaks from its left side.",
    time: "2026-05-04T09:12:00Z",
  },
  {
    customer: "desk-ben",
    id: "ticket-2",
    said: "Please send invoices to accounts@example.org from now on.",
    time: "2026-05-04T10:40:00Z",
  },
];

const tokens = new Map<string, string>();
for (const ticket of tickets) tokens.set(ticket.customer, await store(ticket));

for (const [customer, said] of [
  ["desk-ana", "Is there any news about my coffee machine?"],
  ["desk-ben", "Where do you send the invoices?"],
] as const) {
  console.log(`${customer}: ${said}`);
  console.log(await known(customer, said, tokens.get(customer) ?? ""));
}
