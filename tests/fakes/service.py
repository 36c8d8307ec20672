"""The service as the client sees it: answers as it is told, and keeps what it was asked."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor
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

REGISTRATIONS: dict[Any, Callable[[Any, grpc.Server], None]] = {
    admin_service_pb2: admin_service_pb2_grpc.add_AdminServiceServicer_to_server,
    catalog_service_pb2: catalog_service_pb2_grpc.add_CatalogServiceServicer_to_server,
    ingest_service_pb2: ingest_service_pb2_grpc.add_IngestServiceServicer_to_server,
    retrieval_service_pb2: retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server,
}
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


METHODS = {
    method.name: method
    for module in REGISTRATIONS
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
RESPONSES = {name: GetMessageClass(method.output_type) for name, method in METHODS.items()}
"""The class of the response of each method."""

Answer = Message | Mapping[str, Any] | Failure
"""A response, its fields, or a status other than OK."""


class FakeService:
    """Answers each method with what `will_answer` queued for it, then with empty messages.

    Of a stream of requests it answers the last; the list of them is one of its `requests`. A stream
    of responses has one.
    """

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


def _answering(described: MethodDescriptor) -> Any:
    """A method of the service."""

    def answer(self: FakeService, request: Any, context: grpc.ServicerContext) -> Any:
        request = list(request) if described.client_streaming else request
        default: Any = RESPONSES[described.name]()
        if described.name == "RetrieveStream":
            default.request_number, default.final = len(request), True
        answered = self._answer(described.name, request, context, default)
        return iter([answered]) if described.server_streaming else answered

    return answer


for _name, _method in METHODS.items():
    setattr(FakeService, _name, _answering(_method))


Fake = TypeVar("Fake", bound=FakeService)


@contextmanager
def running(service: Fake) -> Iterator[Fake]:
    """The service, listening on loopback."""
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    for register in REGISTRATIONS.values():
        register(service, server)
    health_pb2_grpc.add_HealthServicer_to_server(service.health, server)
    service.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield service
    finally:
        server.stop(grace=None).wait()
