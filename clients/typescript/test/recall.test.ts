// Recall, the tool and dates, before a server of its own in each form of transport.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import http from "node:http";
import http2 from "node:http2";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV3 } from "ai/test";

import { NOTHING, recallTool, UNAVAILABLE } from "../src/ai.js";
import type { IngestRequest } from "../src/gen/trivium/v1/ingest_service_pb.js";
import { IngestService } from "../src/gen/trivium/v1/ingest_service_pb.js";
import {
  RetrievalService,
  type RetrieveRequest,
} from "../src/gen/trivium/v1/retrieval_service_pb.js";
import { Recall, type RetrieveStreamRequest, timestampDate, TriviumClient } from "../src/index.js";

const asked: RetrieveRequest[] = [];
const written: IngestRequest[] = [];
let failures: Code[] = [];
let answer: (request: RetrieveRequest, signal: AbortSignal) => Promise<string>;

function routes(router: ConnectRouter): void {
  router.service(RetrievalService, {
    async retrieve(request, { signal }) {
      asked.push(request);
      return { briefing: await answer(request, signal) };
    },
  });
  router.service(IngestService, {
    ingest(request) {
      const code = failures.shift();
      if (code) throw new ConnectError("no", code);
      written.push(request);
      return {};
    },
  });
}

const server = http2.createServer(connectNodeAdapter({ routes }));
const web = http.createServer(connectNodeAdapter({ routes }));
const sessions = new Set<http2.ServerHttp2Session>();
server.on("session", (session) => sessions.add(session));
before(async () => {
  for (const each of [server, web]) {
    await new Promise<void>((done) => void each.listen(0, "127.0.0.1", done));
  }
});
after(() => {
  server.close();
  web.close();
  web.closeAllConnections();
  for (const session of sessions) session.destroy();
});

function client(): TriviumClient {
  asked.length = written.length = 0;
  failures = [];
  answer = async ({ query }) => `<memory>${query}</memory>`;
  const { port } = server.address() as AddressInfo;
  return new TriviumClient({ baseUrl: `http://127.0.0.1:${port}`, tenant: "ann" });
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((done) => setTimeout(done, 1));
}

test("a result whose words equal those of the turn is taken at once", async () => {
  const filter = { noneOf: { kinds: ["draft"], filters: [{ speakers: ["Bot"] }] } };
  const recall = new Recall(client(), { session: "s", budgetMs: 10_000, profile: "annie", filter });
  recall.heard("when is the wedding");
  await until(() => asked.length === 1);

  assert.equal(await recall.turn("When is the wedding?"), "<memory>when is the wedding</memory>");
  assert.equal(asked.length, 1);
  assert.equal(asked[0]!.profile, "annie");
  assert.deepEqual(asked[0]!.filter?.noneOf?.sessions, ["s"]);
  assert.deepEqual(asked[0]!.filter?.noneOf?.kinds, ["draft"]);
  assert.deepEqual(asked[0]!.filter?.noneOf?.filters[0]?.speakers, ["Bot"]);
  assert.equal(recall.counts.ready + recall.counts.waited, 1);
});

test("other words are searched for, and the search for the former ones ends", async () => {
  const memory = client();
  let isCancelled = false;
  answer = ({ query }, signal) =>
    query === "Whose?"
      ? Promise.resolve("found")
      : new Promise((_, reject) => {
          signal.addEventListener("abort", () => {
            isCancelled = true;
            reject(signal.reason);
          });
        });
  const recall = new Recall(memory, { session: "s", budgetMs: 10_000 });
  recall.heard("who");
  await until(() => asked.length === 1);

  assert.equal(await recall.turn("Whose?"), "found");
  await until(() => isCancelled);
  assert.equal(recall.counts.waited, 1);
});

test("a turn without an answer in time, or without a service, has no block", async () => {
  const memory = client();
  answer = (_, signal) => new Promise((done) => signal.addEventListener("abort", () => done("")));
  const recall = new Recall(memory, { session: "s" });
  assert.equal(await recall.turn("When?", 1), "");
  assert.equal(recall.counts.late + recall.counts.failed, 1);
  const nobody = new TriviumClient({ baseUrl: "http://127.0.0.1:1", tenant: "ann" });
  const gone = new Recall(nobody, { session: "s", budgetMs: 10_000 });
  assert.equal(await gone.turn("When?"), "");
  assert.equal(gone.counts.failed, 1);
});

test("what is said in an outage is stored after it, once", async () => {
  const recall = new Recall(client(), { session: "s" });
  failures = [Code.Unavailable];
  recall.said("Nora", "When?", "1", new Date("2026-05-01T12:00:00Z"));
  recall.said("Nora", "When?", "1");
  recall.said("Bot", "In May.", "2");
  await recall.close();

  const items = written.flatMap(({ items }) => items.map(({ item }) => item.value!));
  assert.deepEqual(items.map(({ id }) => id), ["s/1", "s/2"]);
  assert.ok("eventTime" in items[0]!);
  assert.equal(timestampDate(items[0]!.eventTime!).toISOString(), "2026-05-01T12:00:00.000Z");
  assert.deepEqual([recall.counts.written, recall.counts.writeRetries], [2, 1]);
});

test("times are dates, also within filters", async () => {
  const start = new Date("2026-05-01T00:00:00Z");
  await client().retrieve("x", { asOf: start, filter: { eventTime: { start } } });

  assert.equal(asked[0]!.asOf!.seconds, BigInt(start.getTime() / 1000));
  assert.equal(asked[0]!.filter!.eventTime!.start!.seconds, asked[0]!.asOf!.seconds);
  const request: Partial<RetrieveStreamRequest> = { final: true }; // its type is exported
  assert.ok(request.final);
});

test("the tool tells a bad question from a service that is down", async () => {
  const memory = client();
  const recall = recallTool(memory, { limit: 3 });
  const call = (question: string) => recall.execute({ question });
  assert.equal(await call("Who sails?"), "<memory>Who sails?</memory>");
  assert.equal(asked[0]!.limit, 3);
  answer = async () => "";
  assert.equal(await call("Who sails?"), NOTHING);
  answer = async () => {
    throw new ConnectError("query: is too long", Code.InvalidArgument);
  };
  assert.match(await call("x"), /query: is too long/);
  answer = async () => {
    throw new ConnectError("down", Code.Unavailable);
  };
  assert.equal(await call("x"), UNAVAILABLE);
});

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

test("the AI SDK calls the tool, and gives the model its schema and its block", async () => {
  const input = JSON.stringify({ question: "Who sails?" });
  const model = new MockLanguageModelV3({
    doGenerate: [
      {
        content: [{ type: "tool-call", toolCallId: "1", toolName: "recall", input }],
        finishReason: { unified: "tool-calls", raw: undefined },
        usage: USAGE,
        warnings: [],
      },
      {
        content: [{ type: "text", text: "Mara." }],
        finishReason: { unified: "stop", raw: undefined },
        usage: USAGE,
        warnings: [],
      },
    ],
  });
  const tools = { recall: recallTool(client()) };
  const { text } = await generateText({ model, tools, stopWhen: stepCountIs(2), prompt: "Who?" });

  assert.equal(text, "Mara.");
  const [first, second] = model.doGenerateCalls;
  assert.match(JSON.stringify(first!.tools), /"required":\["question"\]/);
  assert.match(JSON.stringify(second!.prompt), /<memory>Who sails\?<\/memory>/);
});

test("the tool is typed without a version of the AI SDK", async () => {
  for (const file of ["ai.js", "ai.d.ts"]) {
    const built = await readFile(new URL(`../src/${file}`, import.meta.url), "utf-8");
    assert.doesNotMatch(built, /["']ai["']/);
  }
});

test("the tool refuses what is no question", () => {
  const { validate } = recallTool(client()).inputSchema["~standard"];
  for (const value of [null, {}, { question: 7 }]) assert.ok("issues" in validate(value));
  assert.deepEqual(validate({ question: "Who?" }), { value: { question: "Who?" } });
});

const IN_A_BROWSER = `
const { TriviumClient } = await import(process.argv[1]);
const memory = new TriviumClient({ baseUrl: process.argv[2], tenant: "ann", token: "key" });
console.log(await memory.briefing("Who sails?"));
`;

test("in a browser it speaks Connect over fetch, without modules of Node.js", async () => {
  client();
  const { port } = web.address() as AddressInfo;
  const index = new URL("../src/index.js", import.meta.url).href;
  // What a bundler for browsers resolves.
  const given = ["--conditions=browser", "--input-type=module", "-e", IN_A_BROWSER, "--", index];
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...given,
    `http://127.0.0.1:${port}`,
  ]);

  assert.equal(stdout, "<memory>Who sails?</memory>\n");
});
