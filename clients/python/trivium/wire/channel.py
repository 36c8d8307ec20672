"""The options of a connection: default timeouts, limits and retries.

Every call of this API but CreateKey is idempotent. gRPC therefore makes up to four attempts
within the deadline if a call fails with UNAVAILABLE because the connection was
refused or broke, or a proxy had no server. It does not retry if the service
itself answered UNAVAILABLE, after the headers of a response (gRFC A6): then
`retry_delay` of the error has the time to wait. It does not retry a stream that
has exceeded the retry buffer (256 KiB) either.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from trivium.wire.credentials import is_on_this_machine

DEFAULT_TIMEOUT_S = 2.0
"""For reads; equals the server's default time budget."""

DEFAULT_WRITE_TIMEOUT_S = 60.0
"""For writes and erasures."""

DEFAULT_STREAM_TIMEOUT_S = 3600.0
"""For streams of items."""

DEFAULT_UTTERANCE_TIMEOUT_S = 300.0
"""For streams of transcripts; the server's own limit."""

DEFAULT_WATCH_TIMEOUT_S = 30.0
"""For a stream of changes, which the server ends after five seconds."""

Metadata = Sequence[tuple[str, str | bytes]]
"""Metadata sent with every call, such as `("authorization", "Bearer ...")`."""

ChannelOptions = Sequence[tuple[str, str | int]]
"""gRPC channel arguments; a later one overrides an earlier one with the same name."""

MAX_RESPONSE_BYTES = 64 << 20
"""A page of 1,000 segments of 32 KiB exceeds gRPC's default of 4 MiB."""

SERVICE_CONFIG = json.dumps(
    {
        "methodConfig": [
            {
                "name": [{}],
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.02s",
                    "maxBackoff": "0.5s",
                    "backoffMultiplier": 3,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            },
            {"name": [{"service": "trivium.v1.AdminService", "method": "CreateKey"}]},
        ]
    }
)
"""The retry policy of all methods but the one that is not idempotent, as a gRPC service config
(gRFC A6)."""

DEFAULT_OPTIONS: ChannelOptions = (
    ("grpc.service_config", SERVICE_CONFIG),
    ("grpc.enable_retries", 1),
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    # A proxy limits the concurrent calls of a connection, commonly to 100; further calls
    # queue in the client. With a local pool each client has its own connection; otherwise
    # all clients of a process share one.
    ("grpc.use_local_subchannel_pool", 1),
)


def with_defaults(target: str, options: ChannelOptions) -> list[tuple[str, str | int]]:
    """The default options, overridden by the given ones."""
    # gRPC would send what is for this machine to the proxy that `http_proxy` names.
    proxy = [("grpc.enable_http_proxy", 0)] if is_on_this_machine(target) else []
    return [*DEFAULT_OPTIONS, *proxy, *options]
