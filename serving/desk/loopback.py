"""The desk's changes of Ray: it is restricted to loopback and to its owner.

Ray has no option for the address of Serve's gRPC servers, and HAProxy's metrics and stats pages
always listen on all interfaces. HAProxy's admin socket is open to every account of the machine, and
whoever reaches it can send the calls of the service's port elsewhere. HAProxy answers NOT_FOUND
while it knows no application, as if it would never know one, and UNKNOWN when the server of a call
ends, waits for ever for the rest of a header, hands calls to a proxy of Ray while no replica runs,
where they wait for one until their deadline, and a replica each call of a caller whose calls are
refused; on a cluster, `deploy/haproxy` mends these.
Every Ray worker of the desk runs `bind_to_loopback` first (Ray's `worker_process_setup_hook`). A
test compares the listening ports with the list in docs/operating.md, so it fails when a new version
of Ray moves these calls.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from serving.desk.ray_environment import LOOPBACK
from serving.domain.errors import RateLimitedError, StartingError, TriviumError
from serving.rpc.status import STATUS_DETAILS, to_status

_ALL_INTERFACES = ("[::]:", "0.0.0.0:")
_OPEN_TO_OTHERS = {
    "bind :{{ config.metrics_port }}": f"bind {LOOPBACK}:{{{{ config.metrics_port }}}}",
    "bind *:{{ config.stats_port }}": f"bind {LOOPBACK}:{{{{ config.stats_port }}}}",
    "socket_path }} mode 666 level admin": "socket_path }} mode 600 level admin",
}
_WHOLE_HEADERS = {
    "    option httplog\n": "    option httplog\n    timeout http-request 10s\n",
    # With "proto h2" this timeout begins with the first byte. Without it HAProxy recognizes HTTP/2,
    # and would accept HTTP/1 too. Between two calls a channel may be idle; pings count for nothing.
    " proto h2\n    mode http\n": (
        "\n    timeout http-keep-alive 1h\n    http-request reject unless HTTP_2.0\n    mode http\n"
    ),
}
_OWN_STATUS = {"    errorfile 50": "    # errorfile 50"}
"""Ray sends 500 for HAProxy's 502, 503 and 504. To a caller of gRPC that is UNKNOWN, and those are
UNAVAILABLE."""

_NO_APPLICATION = (
    'hdr grpc-status 5 hdr grpc-message "Application metadata not set. Ping '
    '/ray.serve.RayServeAPIService/ListApplications for available applications."'
)
_NO_ROUTE = (
    "return status 404 content-type text/plain lf-string "
    "\"Path '%[path]' not found. Ping http://.../-/routes for available routes.\""
)
_BACKUP, _GRPC_BACKUP = "}} check backup\n", "}} proto h2 check backup\n"
"""The ends of the lines of Ray's proxy, one for each protocol. It stays in the configuration, which
Ray compares with what it expects, and gets no calls."""

_IN_FRONTENDS = (
    "    # Routes endpoint\n",
    "    # ListApplications must aggregate across all apps, so it goes to the\n",
)
"""The lines after the answers to checks of health: for HTTP, for gRPC."""
MAX_REFUSED = 20
"""Calls of one address and one credential, a second: beyond these HAProxy refuses by itself."""
MAX_REJECTED = 100
"""Calls of one address with any wrong credentials, a second. Beyond these HAProxy refuses calls
with credentials with which none was answered in the last 10 minutes."""
RETRY_REFUSED_S = 1.0
_OF_HEALTH = "{ path_beg /grpc.health.v1.Health/ }"
"""Clients of gRPC watch the health without credentials, and fail all calls if that is refused."""
_BY_HTTP = ("{ status 401 }", "{ status 400 403 413 }", "{ status 200 }")
_BY_GRPC = (
    "{ res.hdr(grpc-status) 16 }",
    "{ res.hdr(grpc-status) 3 7 }",
    "{ status 200 } !{ res.hdr(grpc-status) -m found }",
)
"""The responses to wrong credentials, to an invalid call, and to one that is answered. Without a
message gRPC sends the status of a call as a header, and else after it."""


@cache
def bind_to_loopback() -> None:
    """Makes the gRPC servers of this process and HAProxy's pages listen on loopback only, once.

    HAProxy's admin socket then belongs to the owner alone. HAProxy answers UNAVAILABLE while there
    is no application or no replica, RESOURCE_EXHAUSTED to a caller whose calls were refused too
    often, and closes a connection whose header is not complete within 10 s.

    Raises:
        RuntimeError: This version of Ray is not supported; the desk must not start.
    """
    _bind_grpc_servers()
    _replace_in_haproxy_template(
        {
            **_OPEN_TO_OTHERS,
            **_WHOLE_HEADERS,
            **_OWN_STATUS,
            **starting_answers(),
            **bounds_of_refused(),
        }
    )
    _keep_replicas()  # whose module reads the template


def starting_answers() -> dict[str, str]:
    """HAProxy's answers without an application or a replica, and their replacements.

    The latter is what the service answers to a call for which it is not ready.
    """
    http, grpc = _answers(StartingError(), "unavailable")
    return {
        _NO_APPLICATION: grpc,
        _NO_ROUTE: f"return status 503 {http}",
        _BACKUP: f"}}}} check backup disabled\n    http-error status 503 {http}\n",
        # Clients of gRPC read a status of their own in an answer with the HTTP status 200 alone.
        _GRPC_BACKUP: (
            "}} proto h2 check backup disabled\n"
            f"    http-error status 503 hdr content-type application/grpc {grpc}\n"
            "    http-after-response set-status 200 if { status 503 }\n"
        ),
    }


def bounds_of_refused() -> dict[str, str]:
    """The lines with which HAProxy answers callers by itself whose calls were refused too often.

    A caller is an address with a credential, or without any. Of those without only the missing
    credential counts: a service that asks for none has one caller for each address.
    """
    http, grpc = _answers(
        RateLimitedError("the allowance of refused calls", RETRY_REFUSED_S), "resource_exhausted"
    )
    answers = (f"status 429 {http}", f"status 200 content-type application/grpc {grpc}")
    responses = (_BY_HTTP, _BY_GRPC)
    return {
        before: "".join(f"    {line}\n" for line in _bound_of_refused(answer, *of)) + before
        for before, answer, of in zip(_IN_FRONTENDS, answers, responses, strict=True)
    }


def _bound_of_refused(answer: str, rejected: str, invalid: str, answered: str) -> list[str]:
    return [
        "stick-table type binary len 20 size 100k expire 10m store gpc0_rate(1s),gpc1",
        "http-request set-var(txn.credentials) req.fhdr(authorization),lower",
        "http-request set-var-fmt(txn.caller) %[src]/%[var(txn.credentials)]",
        f"http-request track-sc0 var(txn.caller),sha1 unless {_OF_HEALTH}",
        f"http-request track-sc1 src,sha1 unless {_OF_HEALTH}",
        f"http-request return {answer} if {{ sc0_gpc0_rate gt {MAX_REFUSED} }} "
        f"or {{ sc1_gpc0_rate gt {MAX_REJECTED} }} {{ sc0_get_gpc1 eq 0 }}",
        f"http-response sc-inc-gpc0(0) if {rejected} "
        f"or {invalid} {{ var(txn.credentials) -m found }}",
        f"http-response sc-inc-gpc0(1) if {rejected}",
        f"http-response sc-inc-gpc1(0) if {answered}",
    ]


def _answers(error: TriviumError, code: str) -> tuple[str, str]:
    """An error in the words of HAProxy: by HTTP, with its code there, and by gRPC."""
    status = to_status(error)
    details = [
        {"type": each.type_url.rpartition("/")[2], "value": _base64(each.value)}
        for each in status.details
    ]
    by_http = json.dumps({"code": code, "message": status.message, "details": details})
    return (
        f"content-type application/json hdr retry-after 1 string '{by_http}'",
        f'hdr grpc-status {status.code} hdr grpc-message "{status.message}" '
        f'hdr {STATUS_DETAILS} "{_base64(status.SerializeToString())}"',
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def on_loopback(address: str) -> str:
    """The address with "all interfaces" replaced by loopback."""
    for everywhere in _ALL_INTERFACES:
        if address.startswith(everywhere):
            return f"{LOOPBACK}:{address.removeprefix(everywhere)}"
    return address


def _bind_grpc_servers() -> None:
    from grpc.aio import _server

    for name in ("add_insecure_port", "add_secure_port"):
        setattr(_server.Server, name, _on_loopback(getattr(_server.Server, name)))


def _on_loopback(add_port: Callable[..., int]) -> Callable[..., int]:
    def add(self: object, address: str, *credentials: object) -> int:
        return add_port(self, on_loopback(address), *credentials)

    return add


def _keep_replicas() -> None:
    """Makes HAProxy keep the replicas of an application while Ray names none.

    Ray does while they are reconfigured, and they answer then; those that have ended HAProxy
    notices by itself.
    """
    from ray.serve._private import haproxy

    api: Any = haproxy.HAProxyApi
    original = api.set_backend_configs

    def set_backend_configs(self: Any, named: dict[str, haproxy.BackendConfig]) -> None:
        for name in named.keys() & self.backend_configs.keys():
            named[name].servers = named[name].servers or self.backend_configs[name].servers
        original(self, named)

    api.set_backend_configs = set_backend_configs


def _replace_in_haproxy_template(replaced: Mapping[str, str]) -> None:
    from ray.serve._private import haproxy_templates as templates

    for before, after in replaced.items():
        if before not in templates.HAPROXY_CONFIG_TEMPLATE:
            raise RuntimeError(
                f"unsupported version of Ray: no line {before!r} in its HAProxy template"
            )
        templates.HAPROXY_CONFIG_TEMPLATE = templates.HAPROXY_CONFIG_TEMPLATE.replace(before, after)
