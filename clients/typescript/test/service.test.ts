// The client before the running service, whose address TRIVIUM_TARGET names.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Code, TriviumClient, TriviumError } from "../src/index.js";

const target = process.env["TRIVIUM_TARGET"];

test("what is written is found, explained and forgotten", { skip: !target }, async () => {
  const memory = new TriviumClient({
    baseUrl: `http://${target}`,
    tenant: "typescript",
    timeoutMs: 20_000,
  });
  const written = await memory.ingest({
    segments: [
      { id: "t1", speaker: "Mara", text: "The lease in Lisbon starts in May." },
      { id: "t2", speaker: "Mara", text: "The car is in the garage." },
    ],
  });
  assert.equal(written.outcomes.length, 2);

  const found = await memory.retrieve("When does the lease in Lisbon start?", {
    consistencyToken: written.consistencyToken,
    briefing: {},
    explain: true,
  });
  const [first] = found.hits;
  assert.equal(first?.item.case, "segment");
  assert.equal(first?.item.case === "segment" && first.item.value.id, "t1");
  assert.match(found.briefing, /<memory/);
  assert.equal((await memory.stats()).tenant?.segmentCount, 2n);

  const counted = await memory.forget({ case: "everything", value: true }, { dryRun: true });
  assert.equal(counted.segmentCount, 2n);
  const forgotten = await memory.forget({ case: "everything", value: true });
  assert.equal(forgotten.segmentCount, 2n);
  const after = await memory.retrieve("lease", { consistencyToken: forgotten.consistencyToken });
  assert.deepEqual(after.hits, []);
});

test("an invalid request says which field is wrong", { skip: !target }, async () => {
  const memory = new TriviumClient({ baseUrl: `http://${target}`, tenant: "typescript" });
  await assert.rejects(memory.retrieve("x", { limit: -1 }), (error) => {
    assert.ok(error instanceof TriviumError);
    assert.equal(error.code, Code.InvalidArgument);
    assert.equal(error.reason, "INVALID_FIELD");
    assert.deepEqual(
      error.violations.map((each) => each.field),
      ["limit"],
    );
    return true;
  });
});
