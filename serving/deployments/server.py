"""Bounds for Ray Serve's servers, by replacing what a replica makes them of.

Serve has no option for interceptors or for keep-alive of gRPC, and none for what is in front of
its HTTP application, which runs when Serve has already counted a request as a call (decision 17).
Tests check that it still uses the class and the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grpc_health.v1 import health_pb2
from ray.serve._private import grpc_util, replica
from starlette.types import ASGIApp

from serving.rpc.bounds import BoundedHandlers, OpenToAnyone
from serving.rpc.service import TriviumService
from trivium.v1 import catalog_service_pb2

CLASS = "gRPCGenericServer"
SERVED: Any = getattr(grpc_util, CLASS, object)
"""Serve's own, also after it was replaced."""
START = "start_asgi_http_server"
OWN = (
    f"/{health_pb2.DESCRIPTOR.services_by_name['Health'].full_name}/",
    f"/{catalog_service_pb2.DESCRIPTOR.services_by_name['CatalogService'].full_name}/WatchChanges",
)
"""RPCs outside of Serve's concurrent calls: health, and streams of changes. Serve waits for its
calls before it stops its server, which takes new ones until then; a reader that goes on in the next
stream would have it wait until it kills the replica."""

CONNECTION_OPTIONS = (
    # A peer that is gone holds what it had open for 40 s.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Clients may send as many.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)
DIRECT_OPTIONS = (
    # HAProxy has such a bound for its clients. With one here too, streams that it has ended and
    # gRPC not yet would count, and others be refused.
    ("grpc.max_concurrent_streams", 100),
    # A client connects again by itself.
    ("grpc.max_connection_idle_ms", 300_000),
    ("grpc.max_connection_age_ms", 3_600_000),
    ("grpc.max_connection_age_grace_ms", 3_600_000),
)


def serve_within_bounds(service: TriviumService, ingress: str) -> None:
    """Makes the gRPC server that this replica starts next answer within bounds.

    Raises:
        RuntimeError: This version of Ray is not supported.
    """
    if not hasattr(SERVED, "_override_method_handler"):
        raise RuntimeError(f"unsupported version of Ray: there is no {CLASS} to replace")
    options = [*CONNECTION_OPTIONS, *(() if ingress == "haproxy" else DIRECT_OPTIONS)]
    open_to_anyone = OpenToAnyone()

    class BoundedServer(SERVED):  # type: ignore[misc]
        def __init__(self, factory: Any, *, extra_options: Sequence[Any] = ()) -> None:
            super().__init__(factory, extra_options=[*extra_options, *options])

        def _override_method_handler(self, path: str, handler: Any) -> Any:
            if path.startswith(OWN):
                method = getattr(service, path.rpartition("/")[2])
                kind = "unary_stream" if handler.response_streaming else "unary_unary"
                return handler._replace(**{kind: method})
            return super()._override_method_handler(path, handler)

        def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
            [methods] = handlers
            super().add_generic_rpc_handlers((BoundedHandlers(methods, service, open_to_anyone),))

        def add_registered_method_handlers(self, name: str, handlers: Any) -> None:
            """Adds nothing: these would come before the ones within bounds."""

    setattr(grpc_util, CLASS, BoundedServer)


def read_whole_requests(in_front_of: Callable[[ASGIApp], ASGIApp]) -> None:
    """Makes the HTTP server that this replica starts from now on read whole requests first.

    `in_front_of` puts what does that in front of an application.

    Raises `RuntimeError` in a version of Ray that is not supported.
    """
    start: Any = getattr(replica, START, None)
    if not callable(start):
        raise RuntimeError(f"unsupported version of Ray: its replicas have no {START}")
    if getattr(start, "reads_whole_requests", False):
        return

    async def started(app: Any, http_options: Any, **more: Any) -> Any:
        return await start(in_front_of(app), http_options, **more)

    started.reads_whole_requests = True  # type: ignore[attr-defined]
    setattr(replica, START, started)
