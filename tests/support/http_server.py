"""The HTTP of a service, at a port of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from serving.desk.ray_environment import LOOPBACK
from serving.http.application import asgi_application
from tests.support.waiting import POLL_S


@asynccontextmanager
async def served(service: Any, *, ui: bool = False) -> AsyncIterator[str]:
    """Serves until the end of the block; yields the address."""
    application = asgi_application(service, ui=ui)
    config = uvicorn.Config(application, host=LOOPBACK, port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(POLL_S)
    try:
        yield f"{LOOPBACK}:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
