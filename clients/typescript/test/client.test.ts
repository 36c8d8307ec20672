// The client before a server of its own.

import assert from "node:assert/strict";
import http2 from "node:http2";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";

import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";

import {
  BadRequestSchema,
  ErrorInfoSchema,
  RequestInfoSchema,
  RetryInfoSchema,
} from "../src/gen/google/rpc/error_details_pb.js";
import { RetrievalService, RetrieveResponseSchema } from "../src/gen/trivium/v1/retrieval_service_pb.js";
import { TriviumClient, TriviumError } from "../src/index.js";

const SAID = { seconds: 1_772_366_400n, nanos: 0 };
const seen: { authorization: string | null; budgetMs: number; timeoutMs: number }[] = [];
let fail: ConnectError | undefined;

const server = http2.createServer(
  connectNodeAdapter({
    routes: (router) =>
      router.service(RetrievalService, {
        retrieve(request, context) {
          if (fail) throw fail;
          const budget = request.timeBudget;
          seen.push({
            authorization: context.requestHeader.get("authorization"),
            budgetMs: Number(budget?.seconds) * 1e3 + Number(budget?.nanos) / 1e6,
            timeoutMs: context.timeoutMs() ?? 0,
          });
          return create(RetrieveResponseSchema, {
            briefing: `for ${request.tenant}`,
            hits: [{ rank: 1, item: { case: "segment", value: { eventTime: SAID } } }],
            statistics: { total: { seconds: 1n } },
          });
        },
      }),
  }),
);
const sessions = new Set<http2.ServerHttp2Session>();
server.on("session", (session) => sessions.add(session));
before(() => new Promise<void>((done) => void server.listen(0, "127.0.0.1", done)));
after(() => {
  server.close();
  for (const session of sessions) session.destroy();
});

function client(options: object = {}): TriviumClient {
  const { port } = server.address() as AddressInfo;
  return new TriviumClient({ baseUrl: `http://127.0.0.1:${port}`, tenant: "ann", ...options });
}

test("a timeout is the deadline of the call, and nine tenths of it the budget", async () => {
  assert.equal(await client().briefing("where?", { timeoutMs: 1500 }), "for ann");
  const { budgetMs, timeoutMs } = seen.at(-1)!;
  assert.equal(budgetMs, 1350);
  assert.ok(timeoutMs > 1350 && timeoutMs <= 1500);
});

test("times of an answer are dates, and the rest stays as it is", async () => {
  const found = await client().retrieve("where?");
  const [hit] = found.hits;
  assert.ok(hit?.item.case === "segment");
  const said: Date | undefined = hit.item.value.eventTime;
  assert.equal(said?.toISOString(), "2026-03-01T12:00:00.000Z");
  assert.equal(hit.rank, 1);
  assert.equal(found.statistics?.total?.seconds, 1n);
});

test("a token is sent with each call, and a function is asked for it each time", async () => {
  let count = 0;
  const memory = client({ token: () => `t${++count}` });
  await memory.retrieve("one");
  await memory.retrieve("two");
  await client({ token: "fixed" }).retrieve("three");
  await client().retrieve("four");
  const sent = seen.slice(-4).map((each) => each.authorization);
  assert.deepEqual(sent, ["Bearer t1", "Bearer t2", "Bearer fixed", null]);
});

test("no token is sent in clear text, except where something else encrypts", async () => {
  const { port } = server.address() as AddressInfo;
  const before = seen.length;
  // A name that is not of loopback, and yet leads here.
  const options = { baseUrl: `http://0.0.0.0:${port}`, tenant: "ann", token: "secret" };
  assert.throws(() => new TriviumClient(options), /https in baseUrl/);
  assert.equal(seen.length, before);
  await new TriviumClient({ ...options, tokenWithoutTls: true }).retrieve("x");
  assert.equal(seen.at(-1)!.authorization, "Bearer secret");
  for (const [baseUrl, isAllowed] of [
    ["http://localhost:9000", true],
    ["http://[::1]:9000", true],
    ["http://127.1:9000", true],
    ["https://memory.example", true],
    ["http://memory.example:9000", false],
    ["http://localhost.example:9000", false],
    ["http://127.0.0.1.example", false],
    ["http://127.0.0.1@memory.example", false],
    ["http://10.0.0.1:9000", false],
  ] as const) {
    const open = () => new TriviumClient({ baseUrl, tenant: "ann", token: "secret" });
    if (isAllowed) open();
    else assert.throws(open, /clear text/);
  }
});

test("an error carries the details of its status", async () => {
  fail = new ConnectError("two fields", Code.ResourceExhausted, undefined, [
    { desc: ErrorInfoSchema, value: { reason: "OVERLOADED", metadata: { queue: "query" } } },
    { desc: BadRequestSchema, value: { fieldViolations: [{ field: "limit", description: "no" }] } },
    { desc: RetryInfoSchema, value: { retryDelay: { seconds: 1n, nanos: 500_000_000 } } },
    { desc: RequestInfoSchema, value: { requestId: "r1" } },
  ]);
  try {
    await assert.rejects(client().retrieve("x"), (error) => {
      assert.ok(error instanceof TriviumError);
      assert.equal(error.reason, "OVERLOADED");
      assert.deepEqual(error.metadata, { queue: "query" });
      assert.deepEqual(error.violations, [{ field: "limit", description: "no" }]);
      assert.equal(error.retryDelayMs, 1500);
      assert.equal(error.requestId, "r1");
      assert.equal(error.message, "two fields");
      assert.ok(error.retryable);
      return true;
    });
  } finally {
    fail = undefined;
  }
});

test("an unreachable service is an error that may pass", async () => {
  const nobody = new TriviumClient({ baseUrl: "http://127.0.0.1:1", tenant: "ann" });
  await assert.rejects(nobody.stats(), (error) => {
    assert.ok(error instanceof TriviumError);
    assert.equal(error.code, Code.Unavailable);
    assert.ok(error.retryable);
    return true;
  });
});
