"""A relay between the service and a store, which can delay, hold up or refuse connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

CHUNK_BYTES = 1 << 16

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A TCP port on loopback, or the path of a Unix socket."""

    port: int = 0
    path: Path | None = None

    async def connect(self) -> Streams:
        """Opens a connection.

        Raises:
            OSError: Nothing listens.
        """
        if self.path is not None:
            return await asyncio.open_unix_connection(str(self.path))
        return await asyncio.open_connection("127.0.0.1", self.port)


class Relay:
    """Forwards each connection to an endpoint.

    Args:
        target: Where the store listens.
        listen: Where the relay does; with neither port nor path, on a free port.
    """

    def __init__(self, target: Endpoint, listen: Endpoint) -> None:
        self.delay_s = 0.0
        """By how much each chunk of a response is late; requests are not."""
        self.listen = listen
        self._target = target
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Accepts connections.

        Raises:
            OSError: Something else listens there.
        """
        if self.listen.path is not None:
            self.listen.path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._accept, str(self.listen.path))
            return
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.listen.port)
        self.listen = Endpoint(port=self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Refuses connections, and ends those that are open."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._forward((reader, writer)))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _forward(self, client: Streams) -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(contextlib.suppress(OSError))
            await stack.enter_async_context(_closed(client[1]))
            store = await self._target.connect()
            await stack.enter_async_context(_closed(store[1]))
            requests = asyncio.create_task(self._copy(client[0], store[1], late=False))
            responses = asyncio.create_task(self._copy(store[0], client[1], late=True))
            try:
                await asyncio.wait((requests, responses), return_when=asyncio.FIRST_COMPLETED)
            finally:
                requests.cancel()
                responses.cancel()
                await asyncio.gather(requests, responses, return_exceptions=True)

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, late: bool
    ) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            if late and self.delay_s:
                await asyncio.sleep(self.delay_s)
            writer.write(chunk)
            await writer.drain()


@contextlib.asynccontextmanager
async def _closed(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
