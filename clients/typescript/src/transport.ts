// What both transports are given, and the rule for tokens.

import type { Interceptor } from "@connectrpc/connect";

/** Certificates, in PEM. */
export interface TLSOptions {
  ca?: string | Uint8Array;
  cert?: string | Uint8Array;
  key?: string | Uint8Array;
}

export interface TransportOptions {
  baseUrl: string;
  interceptors: Interceptor[];
  defaultTimeoutMs: number;
  tls?: TLSOptions;
}

/** Throws if a token would be sent to another machine without encryption. */
export function checkEncrypted(baseUrl: string): void {
  const { protocol, hostname } = new URL(baseUrl);
  const isHere = hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
  if (protocol !== "https:" && !isHere) {
    throw new TypeError(
      `a token is not sent to ${hostname} in clear text: use https in baseUrl, or tokenWithoutTls ` +
        "if something on the way encrypts, such as a sidecar",
    );
  }
}
