from __future__ import annotations

import pickle
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest

from serving.rpc import registration
from serving.rpc.boundary import rpc
from serving.rpc.identity.authenticator import OPEN
from serving.rpc.registration import Malformed
from serving.telemetry import NoRecorder
from trivium.errors import InvalidRequestError, to_error
from trivium.v1 import catalog_service_pb2 as catalog

NOT_UTF8 = b"\x0a\x01\xff"  # field 1, a string of one byte


class Methods:
    """Returns the ids of the request; the other methods are never called."""

    recorder = NoRecorder()
    tracer = None
    authenticator = OPEN

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(name=name)

    @rpc(catalog.GetSegmentsResponse)
    async def GetSegments(  # noqa: N802
        self, request: catalog.GetSegmentsRequest
    ) -> catalog.GetSegmentsResponse:
        return catalog.GetSegmentsResponse(missing_ids=request.ids)


@pytest.fixture
async def get_segments() -> AsyncIterator[Any]:
    """The method, called with bytes."""
    server = grpc.aio.server()
    registration.add_catalog_service(Methods(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel.unary_unary("/trivium.v1.CatalogService/GetSegments")
    await server.stop(grace=None)


async def test_undecodable_request_is_rejected_with_details(get_segments: Any) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        await get_segments(NOT_UTF8)

    error = to_error(refused.value)
    assert isinstance(error, InvalidRequestError)
    assert (error.reason, error.violations[0].field) == ("INVALID_FIELD", "request")


async def test_a_message_arrives_as_it_was_sent(get_segments: Any) -> None:
    request = catalog.GetSegmentsRequest(tenant="acme", ids=["a", "b"])

    answered = catalog.GetSegmentsResponse.FromString(
        await get_segments(request.SerializeToString())
    )

    assert list(answered.missing_ids) == ["a", "b"]


def test_malformed_request_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(Malformed())) == Malformed()


class RecordingServer:
    """Keeps the services that are added, and knows no other way to add one."""

    def __init__(self) -> None:
        self.services: list[str] = []

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self.services += [handler.service_name() for handler in handlers]


@pytest.mark.parametrize(
    ("add", "full_name"),
    [
        (registration.add_retrieval_service, "trivium.v1.RetrievalService"),
        (registration.add_ingest_service, "trivium.v1.IngestService"),
        (registration.add_catalog_service, "trivium.v1.CatalogService"),
    ],
)
def test_service_is_added_once_by_generic_handler(add: Any, full_name: str) -> None:
    server = RecordingServer()

    add(Methods(), server)

    assert server.services == [full_name]
