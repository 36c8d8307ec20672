"""What Ray is to find in its environment. Imports nothing of Ray, which reads it at import."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import socket
import tempfile
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
    # On a busy machine a proxy takes more than Serve's 5 s to start, and would be killed for it.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
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
TEMPORARY_FILES = "TMPDIR"
"""The variable of the environment that says where programs make their temporary files."""

TEMP_DIR_PREFIX = "trv-"
LONGEST_TEMP_DIR = 34
"""Bytes. HAProxy takes at most 97 for a socket, in a folder that Ray names by 56 digits; Ray's own
sockets would leave 43."""


class DeskStartError(Exception):
    """The desk did not come up; the message says what failed and where its log is."""


@dataclass(frozen=True, slots=True)
class DeskAddresses:
    """Where the desk's Ray listens, and the file with the token that its dashboard asks for."""

    grpc: str
    dashboard: str
    metrics: str
    token_file: Path


def new_temp_dir() -> tempfile.TemporaryDirectory[str]:
    """Makes a folder with a path that is short enough, where temporary files usually go or in /tmp.

    What Ray's processes leave in it while they end goes with it or stays: it is no error.
    """
    usual = tempfile.gettempdir()
    random_part = 8
    longest = LONGEST_TEMP_DIR - len(TEMP_DIR_PREFIX) - random_part - 1
    return tempfile.TemporaryDirectory(
        prefix=TEMP_DIR_PREFIX,
        dir=usual if len(os.fsencode(usual)) <= longest else "/tmp",
        ignore_cleanup_errors=True,
    )


def desk_environment(temp_dir: Path) -> dict[str, str]:
    """The environment of a Ray cluster on one desk.

    Args:
        temp_dir: An existing folder with a path of at most `LONGEST_TEMP_DIR` bytes, for
            sockets, logs, temporary files and this run's token.

    Raises:
        DeskStartError: There are no free ports.
    """
    token_file = temp_dir / TOKEN_FILE
    token_file.touch(mode=0o600)
    token_file.write_text(secrets.token_hex(32))
    return {
        **LATENCY_ENVIRONMENT,
        **DESK_ENVIRONMENT,
        **_ports(),
        # Ray's dashboard leaves sockets behind.
        TEMPORARY_FILES: str(temp_dir),
        "RAY_AUTH_TOKEN_PATH": str(token_file),
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(temp_dir / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(temp_dir / "admin"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(temp_dir),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(temp_dir / "server-state"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(temp_dir / "log"),
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
        DeskStartError: There are none.
    """
    starts = range(among.start, among.stop - count + 1)
    for first in random.sample(starts, k=len(starts)):
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise DeskStartError(f"no {count} ports in a row from {among.start} to {among.stop} are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind((LOOPBACK, port))
        return True
    return False
