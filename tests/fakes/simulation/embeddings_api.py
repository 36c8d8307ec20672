"""A server of OpenAI's embeddings API, which can also misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.meaning import FakeEncoder

Answer = Callable[[dict[str, Any]], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class EmbeddingsServer:
    """Answers with the vectors of `FakeEncoder`, or with what `answer` gives.

    `bodies` and `keys` are what it was sent; `refused` is a word whose texts it refuses.
    """

    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    refused: str | None = None
    answer: Answer | None = None
    url: str = ""

    @property
    def texts(self) -> list[str]:
        """All texts that it was sent."""
        return [text for body in self.bodies for text in body["input"]]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("Authorization"))
        if self.answer is not None:
            return await self.answer(body)
        if self.refused is not None and any(self.refused in text for text in body["input"]):
            return web.json_response({"error": "refused"}, status=400)
        return web.json_response({"data": entries(body)})


def entries(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The vectors of a request's texts; last first, since the order is not promised."""
    encoder = FakeEncoder()
    vectors = [encoder.encode([encoder.tokenize_query(text)])[0] for text in body["input"]]
    listed = [
        {"index": place, "embedding": (2 * vector).tolist()} for place, vector in enumerate(vectors)
    ]
    return listed[::-1]


def answering(status: int, **headers: str) -> Answer:
    """Answers with a status, and a text that is no JSON."""

    async def answer(_: dict[str, Any]) -> web.StreamResponse:
        return web.Response(status=status, text="nothing here", headers=headers)

    return answer


def giving(answered: object) -> Answer:
    """Answers with this JSON."""

    async def answer(_: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(answered)

    return answer


async def silence(_: dict[str, Any]) -> web.StreamResponse:
    """Never answers."""
    await asyncio.Event().wait()
    raise AssertionError("nothing sets the event")


@asynccontextmanager
async def embeddings_server() -> AsyncIterator[EmbeddingsServer]:
    """Runs the server on loopback."""
    server = EmbeddingsServer()
    application = web.Application()
    application.router.add_post("/v1/embeddings", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield server
    finally:
        await runner.cleanup()
