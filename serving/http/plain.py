"""Routes for people: JSON with the names of the protos, and queries of URLs.

Each is one RPC. Unknown fields are errors here, since people misspell names.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

from google.protobuf.message_factory import GetMessageClass
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from serving.http.calls import answer
from serving.http.connect import JSON, Endpoint, require_content_type
from serving.http.failures import RefusedRequestError, json_response
from serving.http.messages import from_json, from_query, to_plain_json
from serving.rpc.message_bounds import off_loop
from serving.rpc.registration import METHODS
from serving.rpc.service import TriviumService


class PlainRoute(NamedTuple):
    """A route, and the RPC that it calls."""

    verb: Literal["GET", "POST"]
    path: str
    rpc: str


PLAIN_ROUTES = (
    PlainRoute("POST", "/v1/retrieve", "Retrieve"),
    PlainRoute("POST", "/v1/ingest", "Ingest"),
    PlainRoute("POST", "/v1/patch", "Patch"),
    PlainRoute("POST", "/v1/forget", "Forget"),
    PlainRoute("GET", "/v1/segments", "ListSegments"),
    PlainRoute("GET", "/v1/describe", "DescribeEntity"),
    PlainRoute("GET", "/v1/stats", "GetStats"),
    PlainRoute("GET", "/v1/tenants", "ListTenants"),
    PlainRoute("GET", "/v1/audit", "ListAuditEntries"),
    PlainRoute("GET", "/v1/keys", "ListKeys"),
    PlainRoute("POST", "/v1/keys", "CreateKey"),
    PlainRoute("POST", "/v1/keys/revoke", "RevokeKey"),
)


def plain_routes(service: TriviumService) -> list[Route]:
    """The routes."""
    routes = PLAIN_ROUTES
    return [Route(each.path, _endpoint(service, each), methods=[each.verb]) for each in routes]


def _endpoint(service: TriviumService, route: PlainRoute) -> Endpoint:
    message_class = GetMessageClass(METHODS[route.rpc].input_type)

    async def endpoint(request: Request) -> Response:
        if route.verb == "GET":
            message = from_query(request.scope["query_string"], message_class)
        else:
            require_content_type(request, JSON)
            if request.scope["query_string"]:
                why = "the fields of this route are read from JSON, and none from its URL"
                raise RefusedRequestError(400, "invalid_argument", why)
            body = await request.body()
            message = await off_loop(partial(from_json, body, message_class), len(body))
        response = await answer(service, route.rpc, message, request)
        return json_response(await off_loop(partial(to_plain_json, response), response.ByteSize()))

    return endpoint
