"""The service as the client sees it: answers as it is told, and keeps what it was asked."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2
from grpc_health.v1 import health, health_pb2_grpc

from trivium.errors import DETAILS_KEY
from trivium.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    catalog_service_pb2,
    catalog_service_pb2_grpc,
    ingest_service_pb2,
    ingest_service_pb2_grpc,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
    segment_pb2,
)

_Request = TypeVar("_Request", bound=Message)


@dataclass(frozen=True)
class Failure:
    """A status other than OK: bare, as a proxy refuses, or with details, as the service returns."""

    code: grpc.StatusCode
    message: str = ""
    details: Sequence[Message] = ()

    def apply(self, context: grpc.ServicerContext) -> None:
        if not self.details:
            context.abort(self.code, self.message)
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        for detail in self.details:
            status.details.add().Pack(detail)
        context.set_trailing_metadata(((DETAILS_KEY, status.SerializeToString()),))
        context.set_code(self.code)
        context.set_details(self.message)


RESPONSES = {
    method.name: GetMessageClass(method.output_type)
    for module in (
        retrieval_service_pb2,
        ingest_service_pb2,
        catalog_service_pb2,
        admin_service_pb2,
    )
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""The class of the response of each method."""

Answer = Message | Mapping[str, Any] | Failure
"""A response, its fields, or a status other than OK."""


def _unary(method: str) -> Any:
    """A method that answers with what is queued for it, or an empty response."""

    def answer(self: FakeService, request: Any, context: grpc.ServicerContext) -> Any:
        return self._answer(method, request, context, RESPONSES[method]())

    return answer


class FakeService(
    retrieval_service_pb2_grpc.RetrievalServiceServicer,
    ingest_service_pb2_grpc.IngestServiceServicer,
    catalog_service_pb2_grpc.CatalogServiceServicer,
    admin_service_pb2_grpc.AdminServiceServicer,
):
    """Answers each method with what `will_answer` queued for it, then with empty messages."""

    def __init__(self) -> None:
        self.address = ""
        self.health = health.HealthServicer()
        self.requests: list[Any] = []
        self.deadlines_s: list[float] = []
        self.metadata: list[dict[str, str | bytes]] = []
        self._answers: dict[str, deque[Message | Failure]] = defaultdict(deque)

    def will_answer(self, method: str, *answers: Answer) -> None:
        """Queues answers; a failed call takes one for each attempt."""
        self._answers[method].extend(
            RESPONSES[method](**each) if isinstance(each, Mapping) else each for each in answers
        )

    def request(self) -> Any:
        """The only request of the test."""
        (request,) = self.requests
        return request

    def sent(self, kind: type[_Request]) -> list[_Request]:
        """The requests of a kind."""
        return [each for each in self.requests if isinstance(each, kind)]

    def ingested(self) -> list[segment_pb2.Segment]:
        """The segments of all calls of Ingest."""
        calls = self.sent(ingest_service_pb2.IngestRequest)
        return [item.segment for each in calls for item in each.items]

    def turns(self) -> list[tuple[str, str]]:
        """The speakers and texts of these."""
        return [(each.speaker, each.text) for each in self.ingested()]

    def _answer(
        self, method: str, request: Any, context: grpc.ServicerContext, default: Message
    ) -> Any:
        self.requests.append(request)
        self.deadlines_s.append(context.time_remaining() or 0.0)
        self.metadata.append(dict(context.invocation_metadata()))
        queue = self._answers[method]
        answer = queue.popleft() if queue else default
        if isinstance(answer, Failure):
            answer.apply(context)
            return default
        return answer

    Retrieve = _unary("Retrieve")

    def RetrieveStream(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        """Answers the last request as it is told; the requests before it are only kept."""
        requests = list(request_iterator)
        default = retrieval_service_pb2.RetrieveStreamResponse(
            request_number=len(requests), final=True
        )
        yield self._answer("RetrieveStream", requests, context, default)

    Warm = _unary("Warm")
    ListProfiles = _unary("ListProfiles")
    RetrieveBatch = _unary("RetrieveBatch")
    DescribeEntity = _unary("DescribeEntity")
    Compare = _unary("Compare")
    ExplainAbsence = _unary("ExplainAbsence")
    Ingest = _unary("Ingest")

    def IngestStream(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        default = ingest_service_pb2.IngestStreamResponse()
        return self._answer("IngestStream", list(request_iterator), context, default)

    Patch = _unary("Patch")
    Forget = _unary("Forget")
    GetSegments = _unary("GetSegments")
    GetFacts = _unary("GetFacts")
    ListSegments = _unary("ListSegments")
    ListFacts = _unary("ListFacts")

    def WatchChanges(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Each answer is a stream of its own, of one response."""
        default = catalog_service_pb2.WatchChangesResponse()
        yield self._answer("WatchChanges", request, context, default)

    GetStats = _unary("GetStats")
    ListTenants = _unary("ListTenants")
    ListAuditEntries = _unary("ListAuditEntries")
    ListKeys = _unary("ListKeys")
    CreateKey = _unary("CreateKey")
    RevokeKey = _unary("RevokeKey")


Fake = TypeVar("Fake", bound=FakeService)


@contextmanager
def running(service: Fake) -> Iterator[Fake]:
    """The service, listening on loopback."""
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server(service, server)
    ingest_service_pb2_grpc.add_IngestServiceServicer_to_server(service, server)
    catalog_service_pb2_grpc.add_CatalogServiceServicer_to_server(service, server)
    admin_service_pb2_grpc.add_AdminServiceServicer_to_server(service, server)
    health_pb2_grpc.add_HealthServicer_to_server(service.health, server)
    service.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield service
    finally:
        server.stop(grace=None).wait()
