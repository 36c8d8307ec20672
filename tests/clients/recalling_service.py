"""Fakes of the service for the plug-ins of voice bots."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import grpc

from tests.fakes.service import Failure, FakeService
from tests.support.waiting import until_async
from trivium import AsyncClient
from trivium.v1.retrieval_service_pb2 import (
    RetrieveRequest,
    RetrieveResponse,
    RetrieveStreamResponse,
)

PATIENCE_S = 30.0
WEDDING = "<memory>\n- Nora said: 'The wedding is on the eighth.'\n</memory>"
GOA = "<memory>\n- Nora flies to Goa.\n</memory>"
BOTH = GOA.removesuffix("</memory>") + WEDDING.removeprefix("<memory>\n")
"""One block of both."""
DOWN = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
LATE = Failure(grpc.StatusCode.DEADLINE_EXCEEDED, "late")
SYSTEM = ("system", "You are brief.")
ANSWER = ("assistant", "I see.")
WHEN = ("user", "When is the wedding?")
TRIP = ("user", "And the trip?")
EXCHANGES = [
    *[("Nora", "When is the wedding?"), ("Bot", "I see.")],
    *[("Nora", "And the trip?"), ("Bot", "I see.")],
]
"""Speakers and texts of two turns and their answers."""


Messages = list[tuple[str, str]]
"""Roles and texts."""


class VoiceBot(Protocol):
    """A running bot, whose user is a test."""

    memory: Any
    voice: Any

    def history(self) -> Messages: ...

    async def begins(self) -> None: ...

    async def says(self, so_far: str) -> None: ...

    async def transcribed(self, text: str) -> None: ...

    async def ends(self, text: str) -> None: ...

    async def given(self) -> Messages:
        """What the model is given next, once it has answered."""
        ...

    async def hears(self, text: str) -> Messages:
        """A whole turn; what the model was given in it."""
        ...


class RecallingService(FakeService):
    """Answers the questions of turns as it was told, and the one at the start with `at_start`.

    Attributes:
        early: The blocks for transcripts of turns that have not ended; others are not answered.
        heard: These transcripts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.at_start = ""
        self.early: dict[str, str] = {}
        self.heard: list[str] = []

    def will_recall(self, *answers: str | Failure) -> None:
        blocks = (
            each if isinstance(each, Failure) else RetrieveResponse(briefing=each)
            for each in answers
        )
        self.will_answer("Retrieve", *blocks)

    def Retrieve(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.profile == "opening":
            return RetrieveResponse(briefing=self.at_start)
        return self.recalled(request, context)

    def RetrieveStream(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        for number, request in enumerate(request_iterator, start=1):
            text = request.retrieve.query
            if request.final:
                answer = self.recalled(request.retrieve, context)
                yield _streamed(answer, number, final=True)
                return
            self.heard.append(text)
            if text in self.early:
                answer = RetrieveResponse(briefing=self.early[text])
                yield _streamed(answer, number, final=False)

    def recalled(self, request: RetrieveRequest, context: grpc.ServicerContext) -> RetrieveResponse:
        answer: RetrieveResponse = self._answer("Retrieve", request, context, RetrieveResponse())
        return answer

    def asked(self) -> list[str]:
        return [each.query for each in self.sent(RetrieveRequest)]

    async def until_searched(self, text: str) -> None:
        """Waits for a transcript of a turn that has not ended."""

        async def is_searched() -> bool:
            return text in self.heard

        await until_async(is_searched)

    def recalls(self) -> list[RetrieveRequest]:
        return [each for each in self.sent(RetrieveRequest) if each.query]


def _streamed(answer: RetrieveResponse, number: int, *, final: bool) -> RetrieveStreamResponse:
    return RetrieveStreamResponse(retrieved=answer, request_number=number, final=final)


class HangingService(RecallingService):
    """Answers the first question of a turn only when it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.was_asked = threading.Event()
        self.was_cancelled = threading.Event()

    def recalled(self, request: RetrieveRequest, context: grpc.ServicerContext) -> RetrieveResponse:
        if not self.was_asked.is_set():
            context.add_callback(self.was_cancelled.set)
            self.was_asked.set()
            self.was_cancelled.wait(PATIENCE_S)
        return super().recalled(request, context)


class WatchedClient(AsyncClient):
    """A client that tells when it has loaded the context, and taken an answer of a stream."""

    def __init__(self, address: str) -> None:
        super().__init__(address, tenant="acme")
        self.loaded = asyncio.Event()
        self.taken = asyncio.Event()

    async def load_context(self, *given: Any, **options: Any) -> str:
        block = await super().load_context(*given, **options)
        self.loaded.set()
        return block

    async def retrieve_stream(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
        async for each in super().retrieve_stream(*given, **options):
            yield each
            # Whoever iterates asks for the next one.
            self.taken.set()


async def run_example(service: RecallingService, example: str) -> subprocess.CompletedProcess[str]:
    """Two turns of an example, in a process of its own."""
    path = Path(__file__).parents[2] / "examples" / example
    command = [sys.executable, str(path), "--address", service.address]
    lines = "When is the wedding?\nAnd the trip?\n"
    service.will_recall(WEDDING)
    done = await asyncio.to_thread(
        subprocess.run, command, input=lines, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert len(service.ingested()) == 4
    return done
