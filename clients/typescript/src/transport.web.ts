// How a client in a browser connects: Connect's unary protocol on the service's HTTP port.

import type { Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";

import type { TransportOptions } from "./transport.js";

export function openTransport(options: TransportOptions): Transport {
  const { tls: _, ...common } = options; // a browser has its own certificates
  return createConnectTransport(common);
}
