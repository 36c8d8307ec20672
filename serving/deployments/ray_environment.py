"""What Ray is to find in its environment. Imports nothing of Ray, which reads it at import."""

from __future__ import annotations

import contextlib
import random
import secrets
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"

LATENCY_ENVIRONMENT = {
    # Direct ingress, gRPC between replicas, user code in the main loop: 1.2 ms a call
    # instead of 8-10 (each has its measurement in docs/ray.md).
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    "RAY_SERVE_PROXY_USE_GRPC": "1",
    "RAY_SERVE_HAPROXY_NBTHREAD": "1",
    # Throughput mode holds back a thousand log lines per replica.
    "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "1",
    # Between replicas: a bulk of texts or vectors may exceed the usual 4 MiB.
    "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": str(64 * 1024 * 1024),
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "1000",
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.5",
    "RAY_SERVE_REQUEST_LATENCY_BUCKETS_MS": (
        "0.5,1,2,3,5,7,10,15,20,30,50,75,100,150,200,300,500,1000,5000"
    ),
}
"""What a Ray cluster needs in every node's environment; `deploy/ray.env` holds the same."""

DESK_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # What the raylet has to say while everything ends is no news to the user.
    "RAY_LOG_TO_DRIVER_EVENT_LEVEL": "FATAL",
    # Ray resolves 127.0.0.1 to the machine's outward address unless it is told, by this
    # variable, that it is alone on its machine.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Alone on the desk nobody is drained to.
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "0",
}


def desk_environment(temp_dir: Path, *, stats_port: int, metrics_port: int) -> dict[str, str]:
    """The environment of a Ray cluster on one desk.

    Args:
        temp_dir: An existing folder with a short path (a unix socket's is at most 107 bytes),
            for sockets, logs and this run's token.
        stats_port: Where HAProxy shows its statistics.
        metrics_port: Where HAProxy shows its metrics.
    """
    token_file = temp_dir / "token"
    token_file.touch(mode=0o600)
    token_file.write_text(secrets.token_hex(32))
    return {
        **LATENCY_ENVIRONMENT,
        **DESK_ENVIRONMENT,
        "RAY_AUTH_TOKEN_PATH": str(token_file),
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(temp_dir / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(temp_dir / "admin.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(temp_dir),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(temp_dir / "server-state"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(temp_dir / "metrics.sock"),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(stats_port),
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics_port),
    }


QUIET_PORTS = range(21_000, 29_000)
"""Below the ports that the kernel hands out by itself, so that no client's end can take one
between being chosen and being used, and apart from those that Ray takes."""


def free_port() -> int:
    """A port of the loopback that nothing listens on now.

    Raises:
        OSError: There is none.
    """
    for port in random.sample(QUIET_PORTS, k=len(QUIET_PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    raise OSError(f"no port from {QUIET_PORTS.start} to {QUIET_PORTS.stop} is free")
