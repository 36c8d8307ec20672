"""How a client connects: one connection, deadlines, and retries of what may be repeated.

Every call of this API may be repeated safely: writes are idempotent by id and
content. So gRPC tries a call that fails with UNAVAILABLE up to four times
within its deadline, where the connection was refused or broke, or a proxy had
nobody to pass it to. It does not where the service answered so itself, after
the headers of a response (gRFC A6): then the error's `retry_delay` tells when
to try again. A stream that has outgrown gRPC's retry buffer (256 KiB) is not
tried again either.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

DEFAULT_TIMEOUT_S = 2.0
"""For reads; the server's own default for a retrieval."""

DEFAULT_WRITE_TIMEOUT_S = 60.0
"""For writes and erasures."""

DEFAULT_STREAM_TIMEOUT_S = 3600.0
"""For a stream, which takes as long as its items do."""

Metadata = Sequence[tuple[str, str | bytes]]
"""What goes along with every call, such as `("authorization", "Bearer ...")`."""

ChannelOptions = Sequence[tuple[str, str | int]]
"""gRPC channel arguments; a later one overrides an earlier one of its name."""

MAX_RESPONSE_BYTES = 64 << 20
"""A page of 1,000 segments of 32 KiB exceeds gRPC's usual 4 MiB."""

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
            }
        ]
    }
)
"""The retry policy of all methods, in gRPC's own form (gRFC A6)."""

DEFAULT_OPTIONS: ChannelOptions = (
    ("grpc.service_config", SERVICE_CONFIG),
    ("grpc.enable_retries", 1),
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    # A proxy allows a number of calls at once on a connection, commonly 100, and more
    # queue in the client unseen. With a pool of its own each client is a connection,
    # so a second client doubles that; without it all clients of a process share one.
    ("grpc.use_local_subchannel_pool", 1),
)


def with_defaults(options: ChannelOptions) -> list[tuple[str, str | int]]:
    """The default options, overridden by the given ones."""
    return [*DEFAULT_OPTIONS, *options]
