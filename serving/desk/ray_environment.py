"""The environment variables of Ray. Does not import Ray, which reads them at import."""

from __future__ import annotations

import contextlib
import errno
import random
import secrets
import socket
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from serving.config.settings import ServeSettings

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 240
"""The longest start of Ray's dashboard, its node, its proxies, and then of the deployments."""

LATENCY_ENVIRONMENT = {
    # Direct ingress, gRPC between replicas, user code in the main loop: 1.2 ms a call
    # instead of 8-10. `make bench` measures the overhead over a bare gRPC server.
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    "RAY_SERVE_PROXY_USE_GRPC": "1",
    "RAY_SERVE_HAPROXY_NBTHREAD": "1",
    # Ray's workers give way to all else on the machine (15); callers wait for these.
    "RAY_worker_niceness": "0",
    # Throughput mode buffers a thousand log lines per replica.
    "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "1",
    # Between replicas: a batch of texts or vectors can exceed the default of 4 MiB.
    "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": str(64 * 1024 * 1024),
    # From callers: a batch of Ingest has at most 1,000 texts of 32 KiB.
    "RAY_SERVE_GRPC_MAX_MESSAGE_SIZE": str(64 * 1024 * 1024),
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "1000",
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.5",
    # On a busy machine a proxy needs more than the default of 5 s to start; it would be killed.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    # Serve replaces a proxy after three failed checks, and nothing is answered meanwhile. They are
    # 10 s apart by default.
    "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "2",
    # A replica that refuses a connection has ended; its calls go to others, or fail, at once.
    "RAY_SERVE_HAPROXY_OBSERVE_ERROR_LIMIT": "1",
    "RAY_SERVE_REQUEST_LATENCY_BUCKETS_MS": (
        "0.5,1,2,3,5,7,10,15,20,30,50,75,100,150,200,300,500,1000,5000"
    ),
}
"""The variables that every node of a cluster needs; `deploy/ray.env` has the same."""

QUIET_ENVIRONMENT = {
    # Each worker process wakes up a hundred times a second, so none is kept that has no work.
    "RAY_num_workers_soft_limit": "0",
    "RAY_prestart_worker_first_driver": "0",
    # Statistics of Ray's own event loops, and the list of tasks. A call of Serve is not a task.
    "RAY_event_stats": "0",
    "RAY_task_events_report_interval_ms": "0",
    # The log monitor reads all logs ten times a second for `log_to_driver`, which is off.
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",
    "LOG_NAME_UPDATE_INTERVAL_S": str(365 * 24 * 3600),
    # There is no other machine to report resources to, and there are no tasks to kill.
    "RAY_raylet_report_resources_period_milliseconds": "1000",
    "RAY_raylet_check_gc_period_milliseconds": "1000",
    "RAY_memory_monitor_refresh_ms": "1000",
    # How often the dashboard reads the state of the machine.
    "REPORTER_UPDATE_INTERVAL_MS": "15000",
    "NODE_STATS_UPDATE_INTERVAL_SECONDS": "60",
    "METRICS_RECORD_INTERVAL_S": "60",
    "SCAN_EVENT_DIR_INTERVAL_SECONDS": "60",
}
"""Lowers the CPU time of an idle cluster on one machine: 61 instead of 101 ms a second."""

DESK_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Without its dashboard Ray does not start. On a busy machine it needs more than the default of
    # 60 s: its first start there reads all of its modules.
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": str(START_TIMEOUT_S),
    # Hides the messages of the raylet during shutdown.
    "RAY_LOG_TO_DRIVER_EVENT_LEVEL": "FATAL",
    # Ray replaces 127.0.0.1 by the external address of the machine unless this variable says
    # that the cluster has one machine.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # There is no other replica to drain to, or to try after a second.
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "0",
    "RAY_SERVE_HAPROXY_RETRIES": "0",
    **QUIET_ENVIRONMENT,
}


TOKEN_FILE = "token"
TEMPORARY_FILES = "TMPDIR"
"""The environment variable that names the folder for temporary files."""

TEMP_DIR_PREFIX = "trv-"
RAY_FOLDER = "r"
LONGEST_TEMP_DIR = 34
"""Bytes. A socket path of HAProxy has at most 97, of which Ray's folder name takes 56; the limit
of Ray's own sockets would be 43."""


class DeskStartError(Exception):
    """The desk did not start; the message says what failed and where its log is."""


class DeskEndedError(Exception):
    """A part of a running desk has ended that the desk cannot start again."""


@dataclass(frozen=True, slots=True)
class DeskAddresses:
    """The addresses of the desk, and the file with the token for the dashboard."""

    grpc: str
    http: str
    dashboard: str
    metrics: str
    token_file: Path


def desk_environment(temp_dir: Path) -> dict[str, str]:
    """The environment of the Ray cluster of a desk.

    `temp_dir` is a folder with a path of at most `LONGEST_TEMP_DIR` bytes, for sockets, logs,
    temporary files and the token of this run.

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
    """Ports for this cluster alone.

    By default, replicas and the fallback proxy of every cluster bind the same ports, with
    SO_REUSEPORT (Ray tries to disable it by an option that gRPC ignores). Two desks on one
    machine would share the ports, and the kernel would send calls of one to the other.
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
"""Below the ephemeral ports of the kernel, so that no client socket takes a port between its
choice and its use; disjoint from the ports of Ray."""

CLUSTER_PORTS = range(21_000, 25_000)
"""Disjoint from the quiet ports, because Ray binds these only later."""

REPLICA_PORTS = 50
"""For the ingress replicas of one cluster, including those that are shutting down."""


def free_ports(count: int, among: range = QUIET_PORTS) -> int:
    """The first of `count` consecutive free ports; raises `DeskStartError` without them."""
    starts = range(among.start, among.stop - count + 1)
    for first in random.sample(starts, k=len(starts)):
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise DeskStartError(
        f"no {count} consecutive ports from {among.start} to {among.stop} are free"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind((LOOPBACK, port))
        return True
    return False


PORTS = ("grpc_port", "http_port", "dashboard_port", "metrics_port")


def choose_ports(settings: ServeSettings) -> dict[str, int]:
    """The ports of the settings, by name; each 0 is replaced by a free port.

    Raises `DeskStartError` if a configured one is not available.
    """
    named = {name: getattr(settings, name) for name in PORTS}
    for name, port in named.items():
        if port:
            require_free(port, f"TRIVIUM_SERVE__{name.upper()}")
    # One call, so that the ports are distinct.
    free = count(free_ports(len(PORTS)))
    return {name: port or next(free) for name, port in named.items()}


def require_free(port: int, setting: str) -> None:
    """Raises `DeskStartError` for a port of a setting on which something listens."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                what = "is in use; stop the process that listens on it, or choose another"
            else:
                what = f"is not available ({error.strerror}); choose another"
            raise DeskStartError(f"port {port} {what} with {setting}") from error
