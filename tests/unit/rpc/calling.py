"""A call as the boundary sees it, and a service over what a test gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import status_pb2

from serving.config.profiles import ProfileBook
from serving.rpc.service import TriviumService

Metadata = Sequence[tuple[str, str | bytes]]
Detail = TypeVar("Detail", bound=Message)


@dataclass
class Call:
    """A call, as the boundary sees it, and the status that it gets."""

    metadata: Metadata = (("request_id", "r-1"),)
    code: grpc.StatusCode = grpc.StatusCode.OK
    details: str = ""
    trailers: Metadata = ()

    def invocation_metadata(self) -> Metadata:
        return self.metadata

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        self.trailers = metadata

    @property
    def status(self) -> status_pb2.Status:
        value = dict(self.trailers)["grpc-status-details-bin"]
        assert isinstance(value, bytes)
        return status_pb2.Status.FromString(value)

    def detail(self, kind: type[Detail]) -> Detail:
        """The only detail of a kind in the status."""
        (packed,) = [each for each in self.status.details if each.Is(kind.DESCRIPTOR)]
        found = kind()
        packed.Unpack(found)
        return found


def service_over(use_cases: dict[str, Any] | None = None, **options: Any) -> TriviumService:
    """The service with only these use cases, and the shipped profiles."""
    given: Any = SimpleNamespace(**use_cases or {})
    return TriviumService(given, ProfileBook.load(), **options)
