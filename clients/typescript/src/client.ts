// The client: deadlines, credentials and errors around the generated stubs.

import type { SecureContextOptions } from "node:tls";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

import { typed } from "./errors.js";
import { CatalogService, type GetStatsResponse } from "./gen/trivium/v1/catalog_service_pb.js";
import type { FactSchema } from "./gen/trivium/v1/fact_pb.js";
import {
  type ForgetRequestSchema,
  type ForgetResponse,
  type IngestResponse,
  IngestService,
} from "./gen/trivium/v1/ingest_service_pb.js";
import {
  type BriefingOptionsSchema,
  RetrievalService,
  RetrieveRequestSchema,
  type RetrieveResponse,
} from "./gen/trivium/v1/retrieval_service_pb.js";
import type { SegmentSchema } from "./gen/trivium/v1/segment_pb.js";

export const DEFAULT_TIMEOUT_MS = 2_000;
export const DEFAULT_WRITE_TIMEOUT_MS = 60_000;

/** The share of a timeout that the service may use, so that its answer arrives before the end. */
const BUDGET_SHARE = 0.9;

export interface ClientOptions {
  /** The address with its scheme, such as "http://127.0.0.1:9000"; "https:" encrypts. */
  baseUrl: string;
  tenant: string;
  /** A bearer token; a function is asked before each call, for tokens that expire. */
  token?: string | (() => string | Promise<string>);
  /** For reads. */
  timeoutMs?: number;
  /** For writes. */
  writeTimeoutMs?: number;
  /** Certificates of a connection that is encrypted. */
  tls?: SecureContextOptions;
}

export interface CallOptions {
  timeoutMs?: number;
  /** Cancels the call. */
  signal?: AbortSignal;
}

export type SegmentInit = MessageInitShape<typeof SegmentSchema>;
export type FactInit = MessageInitShape<typeof FactSchema>;
export type RetrieveOptions = CallOptions &
  Omit<MessageInitShape<typeof RetrieveRequestSchema>, "tenant" | "query" | "$typeName">;
export type BriefingOptions = CallOptions &
  Omit<MessageInitShape<typeof BriefingOptionsSchema>, "$typeName">;
type Selector = NonNullable<MessageInitShape<typeof ForgetRequestSchema>["selector"]>;

/**
 * A connection to the service for one tenant. Each call has a deadline and throws a `TriviumError`
 * if it fails.
 */
export class TriviumClient {
  readonly tenant: string;
  /** The generated clients, for all other calls and options; `typed` converts their errors. */
  readonly retrieval: Client<typeof RetrievalService>;
  readonly ingestion: Client<typeof IngestService>;
  readonly catalog: Client<typeof CatalogService>;
  readonly #timeoutMs: number;
  readonly #writeTimeoutMs: number;

  constructor(options: ClientOptions) {
    this.tenant = options.tenant;
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.#writeTimeoutMs = options.writeTimeoutMs ?? DEFAULT_WRITE_TIMEOUT_MS;
    const transport = createGrpcTransport({
      baseUrl: options.baseUrl,
      interceptors: options.token ? [bearer(options.token)] : [],
      defaultTimeoutMs: this.#timeoutMs,
      ...(options.tls && { nodeOptions: options.tls }),
    });
    this.retrieval = createClient(RetrievalService, transport);
    this.ingestion = createClient(IngestService, transport);
    this.catalog = createClient(CatalogService, transport);
  }

  /** Finds the items worth putting into a prompt. */
  async retrieve(query: string, options: RetrieveOptions = {}): Promise<RetrieveResponse> {
    const { timeoutMs = this.#timeoutMs, signal, ...fields } = options;
    const nanos = Math.max(1, Math.round(timeoutMs * BUDGET_SHARE * 1e6));
    const request = create(RetrieveRequestSchema, {
      timeBudget: { seconds: BigInt(Math.floor(nanos / 1e9)), nanos: nanos % 1e9 },
      ...fields,
      tenant: this.tenant,
      query,
    });
    return typed(this.retrieval.retrieve(request, call(timeoutMs, signal)));
  }

  /** The memory block for a prompt; "" if nothing was found. */
  async briefing(query: string, options: BriefingOptions = {}): Promise<string> {
    const { timeoutMs = this.#timeoutMs, signal, ...briefing } = options;
    const found = await this.retrieve(query, { timeoutMs, briefing, ...(signal && { signal }) });
    return found.briefing;
  }

  /** Stores segments and facts in one transaction. */
  async ingest(
    items: { segments?: SegmentInit[]; facts?: FactInit[] },
    options: CallOptions = {},
  ): Promise<IngestResponse> {
    const segments = (items.segments ?? []).map((value) => ({
      item: { case: "segment" as const, value },
    }));
    const facts = (items.facts ?? []).map((value) => ({ item: { case: "fact" as const, value } }));
    return typed(
      this.ingestion.ingest(
        { tenant: this.tenant, items: [...segments, ...facts] },
        call(options.timeoutMs ?? this.#writeTimeoutMs, options.signal),
      ),
    );
  }

  /** Erases items from every store. */
  async forget(selector: Selector, options: CallOptions = {}): Promise<ForgetResponse> {
    return typed(
      this.ingestion.forget(
        { tenant: this.tenant, selector },
        call(options.timeoutMs ?? this.#writeTimeoutMs, options.signal),
      ),
    );
  }

  /** Item counts, the lag of each projection, and the configuration of the service. */
  async stats(options: CallOptions = {}): Promise<GetStatsResponse> {
    return typed(
      this.catalog.getStats(
        { tenant: this.tenant },
        call(options.timeoutMs ?? this.#timeoutMs, options.signal),
      ),
    );
  }
}

function call(timeoutMs: number, signal: AbortSignal | undefined) {
  return signal ? { timeoutMs, signal } : { timeoutMs };
}

function bearer(token: NonNullable<ClientOptions["token"]>): Interceptor {
  return (next) => async (request) => {
    const value = typeof token === "string" ? token : await token();
    request.header.set("authorization", `Bearer ${value}`);
    return next(request);
  };
}
