export { Code } from "@connectrpc/connect";

export * from "./client.js";
export * from "./errors.js";
export * from "./gen/trivium/v1/catalog_service_pb.js";
export * from "./gen/trivium/v1/error_reason_pb.js";
export * from "./gen/trivium/v1/fact_pb.js";
export * from "./gen/trivium/v1/filter_pb.js";
export * from "./gen/trivium/v1/ingest_service_pb.js";
export * from "./gen/trivium/v1/item_pb.js";
export * from "./gen/trivium/v1/segment_pb.js";
export {
  RetrievalService,
  RetrieveRequestSchema,
  type Hit,
  type LegReport,
  type RetrieveRequest,
  type RetrieveResponse,
} from "./gen/trivium/v1/retrieval_service_pb.js";
