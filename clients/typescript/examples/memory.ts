// Stores a turn and asks for it: node dist/examples/memory.js [ADDRESS]

import { TriviumClient } from "../src/index.js";

const memory = new TriviumClient({
  baseUrl: `http://${process.argv[2] ?? "127.0.0.1:9000"}`,
  tenant: "typescript-example",
});
const written = await memory.ingest({
  segments: [{ id: "t1", speaker: "Mara", text: "We moved to Lisbon in May." }],
});
const found = await memory.retrieve("Where did they move?", {
  consistencyToken: written.consistencyToken,
  briefing: {},
});
for (const hit of found.hits) {
  console.log(hit.rank, hit.score.toFixed(3), hit.item.case === "segment" && hit.item.value.text);
}
console.log(found.briefing);
process.exit();
