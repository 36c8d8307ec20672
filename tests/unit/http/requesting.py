"""Requests of HTTP to the application, without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from google.protobuf.message import Message
from starlette.types import ASGIApp

from serving.domain.errors import TriviumError
from serving.http.application import asgi_application
from serving.rpc.boundary import rpc
from serving.rpc.identity.access import OPEN, Access
from serving.telemetry import NoRecorder
from trivium.v1 import catalog_service_pb2 as catalog_pb
from trivium.v1 import ingest_service_pb2 as ingest_pb
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

HOST = "http://127.0.0.1:8000"
JSON = {"content-type": "application/json"}


class FakeRpcs:
    """The service as HTTP sees it: keeps what it was asked, and answers what it was told."""

    recorder = NoRecorder()
    tracer = None

    def __init__(self, response: Message | None = None, *, error: Exception | None = None) -> None:
        self.access: Access = OPEN
        self.requests: list[Any] = []
        self._response = response
        self._error = error

    def _answered(self, request: Message, default: Callable[[], Any]) -> Any:
        self.requests.append(request)
        if self._error is not None:
            raise self._error
        return self._response if self._response is not None else default()

    @rpc(retrieval_pb.RetrieveResponse)
    async def Retrieve(  # noqa: N802
        self, request: retrieval_pb.RetrieveRequest
    ) -> retrieval_pb.RetrieveResponse:
        return self._answered(request, retrieval_pb.RetrieveResponse)  # type: ignore[no-any-return]

    @rpc(retrieval_pb.ListProfilesResponse)
    async def ListProfiles(  # noqa: N802
        self, request: retrieval_pb.ListProfilesRequest
    ) -> retrieval_pb.ListProfilesResponse:
        return self._answered(request, retrieval_pb.ListProfilesResponse)  # type: ignore[no-any-return]

    @rpc(catalog_pb.ListFactsResponse)
    async def ListFacts(  # noqa: N802
        self, request: catalog_pb.ListFactsRequest
    ) -> catalog_pb.ListFactsResponse:
        return self._answered(request, catalog_pb.ListFactsResponse)  # type: ignore[no-any-return]

    @rpc(ingest_pb.IngestResponse)
    async def Ingest(self, request: ingest_pb.IngestRequest) -> ingest_pb.IngestResponse:  # noqa: N802
        return self._answered(request, ingest_pb.IngestResponse)  # type: ignore[no-any-return]

    @rpc(catalog_pb.ListSegmentsResponse)
    async def ListSegments(  # noqa: N802
        self, request: catalog_pb.ListSegmentsRequest
    ) -> catalog_pb.ListSegmentsResponse:
        return self._answered(request, catalog_pb.ListSegmentsResponse)  # type: ignore[no-any-return]

    @rpc(catalog_pb.GetStatsResponse)
    async def GetStats(self, request: catalog_pb.GetStatsRequest) -> catalog_pb.GetStatsResponse:  # noqa: N802
        return self._answered(request, catalog_pb.GetStatsResponse)  # type: ignore[no-any-return]


def failing(error: TriviumError) -> FakeRpcs:
    """A service whose calls all fail so."""
    return FakeRpcs(error=error)


def application(service: Any, **options: Any) -> ASGIApp:
    return asgi_application(service, **options)


async def requested(
    app: ASGIApp, verb: str, path: str, *, base_url: str = HOST, **more: Any
) -> httpx.Response:
    """One request."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
        return await client.request(verb, path, **more)
