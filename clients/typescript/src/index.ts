export { Code } from "@connectrpc/connect";

export { timestampDate } from "@bufbuild/protobuf/wkt";
export * from "./client.js";
// The options of a call, and not the message of the same name.
export type { BriefingOptions } from "./client.js";
export type { Dated, WithDates } from "./dates.js";
export * from "./recall.js";
export type { TLSOptions } from "./transport.js";
export * from "./errors.js";
export * from "./gen/trivium/v1/catalog_service_pb.js";
export * from "./gen/trivium/v1/error_reason_pb.js";
export * from "./gen/trivium/v1/fact_pb.js";
export * from "./gen/trivium/v1/filter_pb.js";
export * from "./gen/trivium/v1/ingest_service_pb.js";
export * from "./gen/trivium/v1/item_pb.js";
export * from "./gen/trivium/v1/segment_pb.js";
export * from "./gen/trivium/v1/retrieval_service_pb.js";
