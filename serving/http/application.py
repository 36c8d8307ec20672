"""The ASGI application: all routes, and what holds for each of them."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.http.calls import REQUEST_ID_HEADER
from serving.http.connect import connect_routes
from serving.http.designs import design_routes
from serving.http.failures import FailedCallError, RefusedRequestError, response_of
from serving.http.plain import plain_routes
from serving.http.static import static_routes
from serving.http.whole_requests import WholeRequests
from serving.rpc.boundary import Guarded
from serving.rpc.service import TriviumService
from serving.rpc.status import internal_status

logger = logging.getLogger(__name__)

PRIVATE_DOMAINS = ("local", "localhost", "internal", "svc", "lan", "home.arpa", "test")
"""The ends of names that no one can register."""


def asgi_application(
    service: TriviumService,
    *,
    cors_origins: Sequence[str] = (),
    ui: bool = False,
    grpc_port: int = 0,
    dashboard_port: int = 0,
) -> ASGIApp:
    """The routes of a service.

    The pages of the sites `cors_origins` may call it. The `ui` is the page `/ui`, whose examples
    name the port of gRPC, 0 for the usual one. It links to Ray's dashboard, if that has a port.
    """
    middleware = [Middleware(PrivateHosts)] if service.authenticator.is_open else []
    routes: list[Route] = [
        *connect_routes(service),
        *plain_routes(service),
        *design_routes(service),
        *static_routes(ui=ui, grpc_port=grpc_port, dashboard_port=dashboard_port),
    ]
    errors: dict[Any, Any] = {
        FailedCallError: _failed,
        RefusedRequestError: _failed,
        HTTPException: _no_route,
        Exception: _unexpected,
    }
    app = Starlette(routes=routes, middleware=middleware, exception_handlers=errors)
    # Also here, for requests that Ray's own proxy passes on.
    return answered_whole(_shared(app, cors_origins), service, cors_origins=cors_origins)


def answered_whole(app: ASGIApp, service: Guarded, *, cors_origins: Sequence[str] = ()) -> ASGIApp:
    """Puts in front of an application what checks credentials and reads whole requests."""
    return WholeRequests(app, service, lambda response: _shared(response, cors_origins))


def _shared(app: ASGIApp, cors_origins: Sequence[str]) -> ASGIApp:
    """An application whose answers the pages of other sites may read."""
    if not cors_origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=list(cors_origins),
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=[REQUEST_ID_HEADER, "retry-after"],
    )


class PrivateHosts:
    """Refuses requests for public host names, where the service has no authentication.

    Any web site can have its own name resolve to this machine or to a private one, and then read a
    service there as its own (DNS rebinding). It cannot do so with an address or a private name.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "http" and not is_private(Request(scope).url.hostname or ""):
            refusal = RefusedRequestError(
                403,
                "permission_denied",
                "without authentication, call the service by an address or a private name",
            )
            await response_of(refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_private(host: str) -> bool:
    """Whether a host is an address, or a name that is in no public registry."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        name = host.lower().rstrip(".")
        return _is_local(name) or name.endswith(tuple(f".{end}" for end in PRIVATE_DOMAINS))
    return True


def _is_local(name: str) -> bool:
    """Whether a name has one label, and no top-level domain may have an address under it.

    Those of countries may: they have two letters, or begin with `xn--`. ICANN forbids it to others.
    """
    return "." not in name and len(name) not in (1, 2) and not name.startswith("xn--")


async def _failed(request: Request, error: FailedCallError | RefusedRequestError) -> Response:
    del request
    return response_of(error)


async def _no_route(request: Request, error: HTTPException) -> Response:
    message = f"there is no {request.method} of this path; /openapi.json and /docs list all"
    return response_of(
        RefusedRequestError(error.status_code, "unimplemented", message, error.headers)
    )


async def _unexpected(request: Request, error: Exception) -> Response:
    request_id = request.headers.get(REQUEST_ID_HEADER, "")
    logger.exception("HTTP request failed unexpectedly", exc_info=error)
    return response_of(FailedCallError(internal_status(request_id)))
