// The client: deadlines, credentials and errors around the generated stubs.

import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";

import { openTransport } from "#transport";

import { type Dated, type WithDates, withDates, withTimestamps } from "./dates.js";
import { typed } from "./errors.js";
import { AdminService } from "./gen/trivium/v1/admin_service_pb.js";
import { CatalogService, type GetStatsResponse } from "./gen/trivium/v1/catalog_service_pb.js";
import type { FactSchema } from "./gen/trivium/v1/fact_pb.js";
import type { FilterSchema } from "./gen/trivium/v1/filter_pb.js";
import {
  type ForgetRequestSchema,
  type ForgetResponse,
  type IngestResponse,
  IngestService,
  type PatchRequestSchema,
  type PatchResponse,
} from "./gen/trivium/v1/ingest_service_pb.js";
import {
  type BriefingOptionsSchema,
  RetrievalService,
  RetrieveRequestSchema,
  type RetrieveResponse,
} from "./gen/trivium/v1/retrieval_service_pb.js";
import type { SegmentSchema } from "./gen/trivium/v1/segment_pb.js";
import { checkEncrypted, type TLSOptions } from "./transport.js";

export const DEFAULT_TIMEOUT_MS = 2_000;
export const DEFAULT_WRITE_TIMEOUT_MS = 60_000;

/** The share of a timeout that the service may use, so that its answer arrives before the end. */
const BUDGET_SHARE = 0.9;

export interface ClientOptions {
  /**
   * The address with its scheme; "https:" encrypts. In Node.js that of gRPC, such as
   * "http://127.0.0.1:9000"; in a browser that of HTTP, such as "http://127.0.0.1:8000".
   */
  baseUrl: string;
  tenant: string;
  /**
   * A bearer token; a function is asked before each call, for tokens that expire. It is only sent
   * over TLS, or to this machine: localhost, 127.0.0.0/8 or ::1.
   */
  token?: string | (() => string | Promise<string>);
  /** Sends the token without TLS, as something on the way encrypts, such as a sidecar. */
  tokenWithoutTls?: boolean;
  /** For reads. */
  timeoutMs?: number;
  /** For writes. */
  writeTimeoutMs?: number;
  /** Certificates of a connection that is encrypted; a browser has its own. */
  tls?: TLSOptions;
}

export interface CallOptions {
  timeoutMs?: number;
  /** Cancels the call. */
  signal?: AbortSignal;
}

/** The fields of a message, and not a whole one. */
type Init<Schema extends DescMessage> = Omit<
  Extract<MessageInitShape<Schema>, { $typeName?: never }>,
  "$typeName"
>;
/** Times are `Date`s, or Timestamps. */
export type SegmentInit = WithDates<Init<typeof SegmentSchema>>;
export type FactInit = WithDates<Init<typeof FactSchema>>;
export type FilterInit = WithDates<Init<typeof FilterSchema>>;
export type RetrieveOptions = CallOptions &
  Omit<WithDates<Init<typeof RetrieveRequestSchema>>, "tenant" | "query" | "filter"> & {
    filter?: FilterInit;
  };
export type BriefingOptions = CallOptions &
  Omit<MessageInitShape<typeof BriefingOptionsSchema>, "$typeName">;
/** The item, and its fields to change. */
export type PatchInit = Omit<WithDates<Init<typeof PatchRequestSchema>>, "tenant">;
type Selector = WithDates<NonNullable<MessageInitShape<typeof ForgetRequestSchema>["selector"]>>;

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
  readonly admin: Client<typeof AdminService>;
  readonly #timeoutMs: number;
  readonly #writeTimeoutMs: number;

  constructor(options: ClientOptions) {
    if (options.token && !options.tokenWithoutTls) checkEncrypted(options.baseUrl);
    this.tenant = options.tenant;
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.#writeTimeoutMs = options.writeTimeoutMs ?? DEFAULT_WRITE_TIMEOUT_MS;
    const transport = openTransport({
      baseUrl: options.baseUrl,
      interceptors: options.token ? [bearer(options.token)] : [],
      defaultTimeoutMs: this.#timeoutMs,
      ...(options.tls && { tls: options.tls }),
    });
    this.retrieval = createClient(RetrievalService, transport);
    this.ingestion = createClient(IngestService, transport);
    this.catalog = createClient(CatalogService, transport);
    this.admin = createClient(AdminService, transport);
  }

  /** Finds the items worth putting into a prompt. */
  async retrieve(query: string, options: RetrieveOptions = {}): Promise<Dated<RetrieveResponse>> {
    const { timeoutMs = this.#timeoutMs, signal, ...fields } = options;
    const nanos = Math.max(1, Math.round(timeoutMs * BUDGET_SHARE * 1e6));
    const timeBudget = { seconds: BigInt(Math.floor(nanos / 1e9)), nanos: nanos % 1e9 };
    const given = withTimestamps<Init<typeof RetrieveRequestSchema>>({ timeBudget, ...fields });
    const tenant = given.tenants?.length ? "" : this.tenant;
    const request = create(RetrieveRequestSchema, { ...given, tenant, query });
    return withDates(await typed(this.retrieval.retrieve(request, call(timeoutMs, signal))));
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
    const segments = (items.segments ?? []).map((each) => ({
      item: {
        case: "segment" as const,
        value: withTimestamps<Init<typeof SegmentSchema>>(each),
      },
    }));
    const facts = (items.facts ?? []).map((each) => ({
      item: {
        case: "fact" as const,
        value: withTimestamps<Init<typeof FactSchema>>(each),
      },
    }));
    return typed(
      this.ingestion.ingest(
        { tenant: this.tenant, items: [...segments, ...facts] },
        call(options.timeoutMs ?? this.#writeTimeoutMs, options.signal),
      ),
    );
  }

  /** Changes some fields of a stored item; fields that are left out stay as they are. */
  async patch(patch: PatchInit, options: CallOptions = {}): Promise<Dated<PatchResponse>> {
    const request = withTimestamps<Init<typeof PatchRequestSchema>>(patch);
    const limits = call(options.timeoutMs ?? this.#writeTimeoutMs, options.signal);
    return withDates(
      await typed(this.ingestion.patch({ ...request, tenant: this.tenant }, limits)),
    );
  }

  /** Erases items from every store; `dryRun` counts them only. */
  async forget(
    selector: Selector,
    options: CallOptions & { dryRun?: boolean } = {},
  ): Promise<ForgetResponse> {
    return typed(
      this.ingestion.forget(
        withTimestamps<Init<typeof ForgetRequestSchema>>({
          tenant: this.tenant,
          selector,
          dryRun: options.dryRun ?? false,
        }),
        call(options.timeoutMs ?? this.#writeTimeoutMs, options.signal),
      ),
    );
  }

  /** Item counts, the lag of each projection, and the configuration of the service. */
  async stats(options: CallOptions = {}): Promise<Dated<GetStatsResponse>> {
    const limits = call(options.timeoutMs ?? this.#timeoutMs, options.signal);
    return withDates(await typed(this.catalog.getStats({ tenant: this.tenant }, limits)));
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
