"""Connect's unary protocol: each RPC as a POST to `/trivium.v1.Service/Method`.

The specification is https://connectrpc.com/docs/protocol. Of what it leaves to servers, these are
left out: GET, since questions would be in the logs of proxies; compression, which an answer of some
kilobytes does not need; and streams, which browsers cannot send and gRPC has.

The package `connectrpc` (0.13) would replace about forty of these lines. It decodes a request
before the boundary authenticates and logs its caller, so its errors would need an adapter as long,
and it brings a second protobuf runtime and an HTTP client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from serving.http.calls import answer
from serving.http.failures import NOT_KEPT, RefusedRequestError, json_response
from serving.http.messages import from_binary, from_json, to_json
from serving.rpc.message_bounds import off_loop
from serving.rpc.registration import METHODS, Malformed
from serving.rpc.service import TriviumService
from trivium.v1.fact_pb2 import Fact
from trivium.v1.ingest_service_pb2 import ForgetResponse
from trivium.v1.retrieval_service_pb2 import Hit, RetrieveResponse
from trivium.v1.segment_pb2 import Segment

JSON = "application/json"
BINARY = "application/proto"
VERSION = "connect-protocol-version"
HIDE_SENSITIVE = "trivium-hide-sensitive"
"""The header of a caller that wants no sensitive text, as the page `/ui` until somebody clicks."""
SHOWN_OF_SEGMENTS = {"id", "kind", "session", "event_time", "created_at", "updated_at", "sensitive"}
SHOWN_OF_FACTS = {"id", "valid_from", "valid_to", "recorded_at", "sensitive"}
"""The fields of a sensitive item for such a caller."""

CONNECT_PATHS = {
    f"/{each.containing_service.full_name}/{each.name}": each for each in METHODS.values()
}

Endpoint = Callable[[Request], Awaitable[Response]]


def connect_routes(service: TriviumService) -> list[Route]:
    """The route of each RPC."""
    return [
        Route(path, _endpoint(service, each), methods=["POST"])
        for path, each in CONNECT_PATHS.items()
    ]


def _endpoint(service: TriviumService, method: MethodDescriptor) -> Endpoint:
    if method.client_streaming or method.server_streaming:
        return _no_stream
    message_class = GetMessageClass(method.input_type)

    async def endpoint(request: Request) -> Response:
        if request.headers.get(VERSION, "1") != "1":
            raise RefusedRequestError(400, "invalid_argument", f"{VERSION} must be 1")
        content_type = require_content_type(request, JSON, BINARY)
        body = await request.body()
        read: Callable[[], Message | Malformed]
        if content_type == BINARY:
            read = partial(from_binary, body, message_class)
        else:
            read = partial(from_json, body, message_class, strict=False)
        message = await off_loop(read, len(body))
        response = await answer(service, method.name, message, request)
        if HIDE_SENSITIVE in request.headers:
            hide_sensitive(response)
        if content_type == BINARY:
            return Response(response.SerializeToString(), headers=NOT_KEPT, media_type=BINARY)
        return json_response(await off_loop(partial(to_json, response), response.ByteSize()))

    return endpoint


async def _no_stream(request: Request) -> Response:
    del request
    raise RefusedRequestError(501, "unimplemented", "streams are answered by gRPC alone")


def require_content_type(request: Request, *accepted: str) -> str:
    """The type of a request's content.

    A browser sends these to another site only if that site allows it (CORS). So no page can have
    its visitor write to a service on the visitor's machine.

    Raises:
        RefusedRequestError: It is not one of those accepted, or is compressed.
    """
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RefusedRequestError(415, "unimplemented", "send the request without compression")
    content_type = content_type_of(request.headers)
    if content_type not in accepted:
        raise RefusedRequestError(
            415,
            "invalid_argument",
            f"set the header Content-Type: {accepted[0]}",
            {"accept-post": ", ".join(accepted)},
        )
    return content_type


def content_type_of(headers: Headers) -> str:
    """The type of a request's content, without parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def hide_sensitive(message: Message) -> bool:
    """Clears what sensitive items say, and what quotes or names it; whether there was any."""
    if isinstance(message, Segment | Fact):
        shown = SHOWN_OF_SEGMENTS if isinstance(message, Segment) else SHOWN_OF_FACTS
        said = {field.name for field, _ in message.ListFields()} - shown
        if message.sensitive:
            for name in said:
                message.ClearField(name)
        return message.sensitive
    hidden = [hide_sensitive(each) for each in _inner(message)]
    if isinstance(message, RetrieveResponse) and any(hidden):
        message.briefing = ""
    elif isinstance(message, Hit) and any(hidden):
        for term in message.ledger.leg_terms:
            term.ClearField("path")
    elif isinstance(message, ForgetResponse):
        # Of a dry run, whose counts do not say which segments are sensitive.
        message.ClearField("speakers")
    return any(hidden)


def _inner(message: Message) -> list[Any]:
    """The messages in a message; maps have none here."""
    found: list[Any] = []
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        found += value if field.is_repeated else [value]
    return found
