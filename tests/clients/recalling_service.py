"""Fakes of the service for the plug-ins of voice bots."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.fakes.service import Failure, FakeService, running
from trivium.v1.ingest_service_pb2 import IngestRequest
from trivium.v1.retrieval_service_pb2 import RetrieveRequest, RetrieveResponse

Service = TypeVar("Service", bound=FakeService)

PATIENCE_S = 30.0


class RecallingService(FakeService):
    """Answers the questions of turns as it was told, and the one at the start with `at_start`."""

    def __init__(self) -> None:
        super().__init__()
        self.at_start = ""

    def will_recall(self, *answers: str | Failure) -> None:
        blocks = (
            each if isinstance(each, Failure) else RetrieveResponse(briefing=each)
            for each in answers
        )
        self.will_answer("Retrieve", *blocks)

    def Retrieve(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.profile == "annie":
            return RetrieveResponse(briefing=self.at_start)
        return super().Retrieve(request, context)

    def asked(self) -> list[str]:
        """The questions of turns."""
        return [each.query for each in self.requests if isinstance(each, RetrieveRequest)]

    def written(self) -> list[list[tuple[str, str, str]]]:
        """The turns of each write, as id, speaker and text."""
        return [
            [(item.segment.id, item.segment.speaker, item.segment.text) for item in each.items]
            for each in self.requests
            if isinstance(each, IngestRequest)
        ]


class HangingService(RecallingService):
    """Answers the first question of a turn only when it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.was_asked = threading.Event()
        self.was_cancelled = threading.Event()

    def Retrieve(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.profile != "annie" and not self.was_asked.is_set():
            context.add_callback(self.was_cancelled.set)
            self.was_asked.set()
            self.was_cancelled.wait(PATIENCE_S)
        return super().Retrieve(request, context)


@contextmanager
def listening(service: Service) -> Iterator[Service]:
    """The service, listening on loopback."""
    with running(service):
        yield service


def unused_address() -> str:
    """An address where nothing listens any more."""
    with running(FakeService()) as service:
        return service.address
