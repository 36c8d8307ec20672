"""Servers of OpenAI's embeddings and chat completions APIs and of `/rerank`; they can misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, ClassVar, TypeVar

from aiohttp import web

from tests.fakes.meaning import FakeEncoder

Answer = Callable[[dict[str, Any]], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class ApiServer:
    """Answers as the API does, or as `answer` does.

    Attributes:
        bodies: The requests.
        keys: Their credentials.
        refused: A request with a text that contains it is answered with 400.
        answer: Answers instead, if a text of the request contains `selected`.
        url: Where it listens.
    """

    PATH: ClassVar[str]

    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    refused: str | None = None
    answer: Answer | None = None
    selected: str = ""
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("Authorization"))
        texts = self.texts_of(body)
        if self.answer is not None and any(self.selected in text for text in texts):
            return await self.answer(body)
        if self.refused is not None and any(self.refused in text for text in texts):
            return web.json_response({"error": "refused"}, status=400)
        return web.json_response(self.usual(body))

    def texts_of(self, body: dict[str, Any]) -> list[str]:
        raise NotImplementedError

    def usual(self, body: dict[str, Any]) -> Any:
        raise NotImplementedError


@dataclass(slots=True)
class EmbeddingsServer(ApiServer):
    """Answers with the vectors of `FakeEncoder`."""

    PATH = "/v1/embeddings"

    @property
    def texts(self) -> list[str]:
        """The texts of all requests."""
        return [text for body in self.bodies for text in body["input"]]

    def texts_of(self, body: dict[str, Any]) -> list[str]:
        return list(body["input"])

    def usual(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"data": entries(body)}


@dataclass(slots=True)
class CompletionsServer(ApiServer):
    """Answers with `content`."""

    PATH = "/v1/chat/completions"

    content: str = '{"facts": []}'

    @property
    def conversations(self) -> list[dict[str, Any]]:
        """The conversations of all requests."""
        return [json.loads(text) for body in self.bodies for text in self.texts_of(body)]

    def texts_of(self, body: dict[str, Any]) -> list[str]:
        return [body["messages"][1]["content"]]

    def usual(self, body: dict[str, Any]) -> dict[str, Any]:
        return completion(self.content)


@dataclass(slots=True)
class RerankServer(ApiServer):
    """Scores texts by their length, in the form of Cohere, Voyage or Text Embeddings Inference."""

    PATH = "/v1/rerank"

    form: str = "cohere"

    def texts_of(self, body: dict[str, Any]) -> list[str]:
        return list(body["texts" if self.form == "tei" else "documents"])

    def usual(self, body: dict[str, Any]) -> Any:
        name = "score" if self.form == "tei" else "relevance_score"
        # Best first, as all of them answer.
        scored = [
            {"index": place, name: len(text) / 100}
            for place, text in enumerate(self.texts_of(body))
        ]
        scored.sort(key=lambda one: -one[name])
        return {"cohere": {"results": scored}, "voyage": {"data": scored}}.get(self.form, scored)


Server = TypeVar("Server", bound=ApiServer)


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[Server]:
    """Runs a server on loopback."""
    application = web.Application()
    application.router.add_post(server.PATH, server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield server
    finally:
        await runner.cleanup()


@contextmanager
def serving_in_a_thread(server: Server) -> Iterator[Server]:
    """Runs a server on loopback, for tests that do not await."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    running = serving(server)
    try:
        asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result()
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def entries(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The vectors of a request's texts; last first, since the order is not promised."""
    encoder = FakeEncoder()
    vectors = [encoder.encode([encoder.tokenize_query(text)])[0] for text in body["input"]]
    listed = [
        {"index": place, "embedding": (2 * vector).tolist()} for place, vector in enumerate(vectors)
    ]
    return listed[::-1]


def completion(content: object) -> dict[str, Any]:
    """An answer with this content."""
    return {
        "choices": [{"message": {"role": "assistant", "content": content}}],
        "usage": {"prompt_tokens": 300, "completion_tokens": 20},
    }


def proposed(**changes: object) -> dict[str, object]:
    """A fact as a model answers it."""
    fact: dict[str, object] = {
        "subject": "Ann",
        "relation": "lives in",
        "object": "Paris",
        "sentence": "Ann lives in Paris.",
        "evidence": ["t1"],
        "valid_from": None,
        "valid_to": None,
        "closes": [],
        "single_valued": True,
    }
    return fact | changes


def answered(*facts: dict[str, object]) -> str:
    """The content with these facts."""
    return json.dumps({"facts": facts})


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
