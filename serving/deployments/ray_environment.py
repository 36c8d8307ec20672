"""What Ray is to find in its environment. Imports nothing of Ray, which reads it at import."""

from __future__ import annotations

import contextlib
import random
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"

LATENCY_ENVIRONMENT = {
    # Direct ingress, gRPC between replicas, user code in the main loop: 1.2 ms a call
    # instead of 8-10. `make bench` shows what Serve adds to a bare gRPC server.
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


TOKEN_FILE = "token"


@dataclass(frozen=True, slots=True)
class DeskAddresses:
    """Where the desk's Ray listens, and the file with the token that its dashboard asks for."""

    grpc: str
    dashboard: str
    metrics: str
    token_file: Path


def desk_environment(temp_dir: Path) -> dict[str, str]:
    """The environment of a Ray cluster on one desk.

    Args:
        temp_dir: An existing folder with a short path (a unix socket's is at most 107 bytes),
            for sockets, logs and this run's token.
    """
    token_file = temp_dir / TOKEN_FILE
    token_file.touch(mode=0o600)
    token_file.write_text(secrets.token_hex(32))
    return {
        **LATENCY_ENVIRONMENT,
        **DESK_ENVIRONMENT,
        **_ports(),
        "RAY_AUTH_TOKEN_PATH": str(token_file),
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(temp_dir / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(temp_dir / "admin.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(temp_dir),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(temp_dir / "server-state"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(temp_dir / "metrics.sock"),
    }


def _ports() -> dict[str, str]:
    """The ports of this cluster alone.

    Replicas and the fallback proxy bind the same first ports in every cluster, and with
    SO_REUSEPORT (Ray means to switch it off, by an option that gRPC ignores): two desks on one
    machine would share them, and the kernel would hand the calls of one to the other.
    """
    first = free_ports(2 * REPLICA_PORTS + 4, among=CLUSTER_PORTS)
    http, grpc = first, first + REPLICA_PORTS
    others = first + 2 * REPLICA_PORTS
    return {
        "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(http),
        "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(http + REPLICA_PORTS - 1),
        "RAY_SERVE_DIRECT_INGRESS_MIN_GRPC_PORT": str(grpc),
        "RAY_SERVE_DIRECT_INGRESS_MAX_GRPC_PORT": str(grpc + REPLICA_PORTS - 1),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(others),
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(others + 1),
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(others + 2),
        "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(others + 3),
    }


QUIET_PORTS = range(25_000, 29_000)
"""Below the ports that the kernel hands out by itself, so that no client's end can take one
between being chosen and being used, and apart from those that Ray takes."""

CLUSTER_PORTS = range(21_000, 25_000)
"""Apart from the quiet ones too: what Ray is given here it binds only later."""

REPLICA_PORTS = 50
"""For one cluster's replicas of the ingress, those on their way out included."""


def free_ports(count: int, among: range = QUIET_PORTS) -> int:
    """The first of so many ports in a row that nothing listens on now.

    Args:
        count: How many.
        among: Where to look.

    Raises:
        OSError: There are none.
    """
    starts = range(among.start, among.stop - count + 1)
    for first in random.sample(starts, k=len(starts)):
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} ports from {among.start} to {among.stop} are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind((LOOPBACK, port))
        return True
    return False
