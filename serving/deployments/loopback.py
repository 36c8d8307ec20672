"""Keeping Ray on loopback: the one place where its bind calls are replaced.

Ray has no option for where Serve's gRPC servers listen, and HAProxy's metrics and stats
pages always take all interfaces. Every Ray worker of the desk runs
`bind_to_loopback` before anything else (Ray's `worker_process_setup_hook`). A test compares
what then listens with the README's list, so a Ray that moves these calls is noticed.
"""

from __future__ import annotations

from serving.deployments.ray_environment import LOOPBACK

_ALL_INTERFACES = ("[::]:", "0.0.0.0:")
_ANY_BIND = {
    "bind :{{ config.metrics_port }}": f"bind {LOOPBACK}:{{{{ config.metrics_port }}}}",
    "bind *:{{ config.stats_port }}": f"bind {LOOPBACK}:{{{{ config.stats_port }}}}",
}


def bind_to_loopback() -> None:
    """Makes this process' gRPC servers and HAProxy's own pages listen on loopback only.

    Raises:
        RuntimeError: Ray's code is not as this expects; the desk must not start then.
    """
    _bind_grpc_servers()
    _bind_haproxy_pages()


def on_loopback(address: str) -> str:
    """The address with "all interfaces" replaced by loopback."""
    for everywhere in _ALL_INTERFACES:
        if address.startswith(everywhere):
            return f"{LOOPBACK}:{address.removeprefix(everywhere)}"
    return address


def _bind_grpc_servers() -> None:
    from grpc.aio import _server

    original = _server.Server.add_insecure_port
    if getattr(original, "on_loopback", False):
        return

    def add_insecure_port(self: _server.Server, address: str) -> int:
        return original(self, on_loopback(address))

    add_insecure_port.on_loopback = True  # type: ignore[attr-defined]
    _server.Server.add_insecure_port = add_insecure_port  # type: ignore[method-assign]


def _bind_haproxy_pages() -> None:
    from ray.serve._private import haproxy_templates as templates

    for anywhere, here in _ANY_BIND.items():
        if here in templates.HAPROXY_CONFIG_TEMPLATE:
            continue
        if anywhere not in templates.HAPROXY_CONFIG_TEMPLATE:
            raise RuntimeError(f"this version of Ray has no line {anywhere!r} to bind to loopback")
        templates.HAPROXY_CONFIG_TEMPLATE = templates.HAPROXY_CONFIG_TEMPLATE.replace(
            anywhere, here
        )
