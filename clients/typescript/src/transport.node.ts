// How a client of Node.js connects: gRPC, with streams in both directions.

import type { Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

import type { TransportOptions } from "./transport.js";

export function openTransport(options: TransportOptions): Transport {
  const { tls, ...common } = options;
  return createGrpcTransport({ ...common, ...(tls && { nodeOptions: tls as object }) });
}
