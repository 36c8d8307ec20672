"""A server of OpenAI's chat completions API, which can also misbehave."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.simulation.embeddings_api import Answer


@dataclass(slots=True)
class CompletionsServer:
    """Answers with `content`, or with what `answer` gives.

    `bodies` and `keys` are what it was sent. A request with a text that contains `refused` is
    answered with 400, and one with `slow` in it by `answer`.
    """

    content: str = '{"facts": []}'
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    refused: str | None = None
    slow: str | None = None
    answer: Answer | None = None
    url: str = ""

    @property
    def conversations(self) -> list[dict[str, Any]]:
        """What it was asked to read."""
        return [json.loads(body["messages"][1]["content"]) for body in self.bodies]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("Authorization"))
        asked = body["messages"][1]["content"]
        if self.answer is not None and (self.slow is None or self.slow in asked):
            return await self.answer(body)
        if self.refused is not None and self.refused in asked:
            return web.json_response({"error": "refused"}, status=400)
        return web.json_response(completion(self.content))


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


@asynccontextmanager
async def completions_server() -> AsyncIterator[CompletionsServer]:
    """Runs the server on loopback."""
    server = CompletionsServer()
    application = web.Application()
    application.router.add_post("/v1/chat/completions", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield server
    finally:
        await runner.cleanup()
