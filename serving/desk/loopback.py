"""Restricts Ray to loopback and to its owner: the only module that replaces its bind calls.

Ray has no option for the address of Serve's gRPC servers, and HAProxy's metrics and stats pages
always listen on all interfaces. HAProxy's admin socket is open to every account of the machine, and
whoever reaches it can send the calls of the service's port elsewhere. Every Ray worker of the desk
runs `bind_to_loopback` first (Ray's `worker_process_setup_hook`). A test compares the listening
ports with the list in docs/operating.md, so it fails when a new version of Ray moves these calls.
"""

from __future__ import annotations

from collections.abc import Callable

from serving.desk.ray_environment import LOOPBACK

_ALL_INTERFACES = ("[::]:", "0.0.0.0:")
_OPEN_TO_OTHERS = {
    "bind :{{ config.metrics_port }}": f"bind {LOOPBACK}:{{{{ config.metrics_port }}}}",
    "bind *:{{ config.stats_port }}": f"bind {LOOPBACK}:{{{{ config.stats_port }}}}",
    "socket_path }} mode 666 level admin": "socket_path }} mode 600 level admin",
}


def bind_to_loopback() -> None:
    """Makes the gRPC servers of this process and HAProxy's pages listen on loopback only.

    HAProxy's admin socket then belongs to the owner alone.

    Raises:
        RuntimeError: This version of Ray is not supported; the desk must not start.
    """
    _bind_grpc_servers()
    _close_haproxy_to_others()


def on_loopback(address: str) -> str:
    """The address with "all interfaces" replaced by loopback."""
    for everywhere in _ALL_INTERFACES:
        if address.startswith(everywhere):
            return f"{LOOPBACK}:{address.removeprefix(everywhere)}"
    return address


def _bind_grpc_servers() -> None:
    from grpc.aio import _server

    for name in ("add_insecure_port", "add_secure_port"):
        original = getattr(_server.Server, name)
        if not getattr(original, "on_loopback", False):
            setattr(_server.Server, name, _on_loopback(original))


def _on_loopback(add_port: Callable[..., int]) -> Callable[..., int]:
    def add(self: object, address: str, *credentials: object) -> int:
        return add_port(self, on_loopback(address), *credentials)

    add.on_loopback = True  # type: ignore[attr-defined]
    return add


def _close_haproxy_to_others() -> None:
    from ray.serve._private import haproxy_templates as templates

    for opened, closed in _OPEN_TO_OTHERS.items():
        if closed in templates.HAPROXY_CONFIG_TEMPLATE:
            continue
        if opened not in templates.HAPROXY_CONFIG_TEMPLATE:
            raise RuntimeError(
                f"unsupported version of Ray: no line {opened!r} in its HAProxy template"
            )
        templates.HAPROXY_CONFIG_TEMPLATE = templates.HAPROXY_CONFIG_TEMPLATE.replace(
            opened, closed
        )
