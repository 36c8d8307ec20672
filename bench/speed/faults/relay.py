"""A relay between the service and a store, which can delay, hold up or refuse connections."""

from __future__ import annotations

import asyncio
import contextlib
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
    """Forwards each connection to the endpoint of a store; by default it listens on a free port."""

    def __init__(self, target: Endpoint, listen: Endpoint) -> None:
        self.delay_s = 0.0
        """By how much each chunk of a response is late; requests are not."""
        self.listen = listen
        self._target = target
        self._server: asyncio.Server | None = None
        self._refuses = True
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Accepts connections.

        Raises:
            OSError: Something else listens there.
        """
        self._refuses = False
        if self.listen.path is not None:
            self.listen.path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._accept, str(self.listen.path))
            return
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.listen.port)
        self.listen = Endpoint(port=self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Refuses connections, and ends those that are open."""
        self._refuses = True
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:  # it was accepted before the end of the server
            writer.close()
            return
        connection = asyncio.create_task(self._forward((reader, writer)))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        # Not at the end of the task, which may be cancelled before it begins.
        connection.add_done_callback(lambda _: writer.close())

    async def _forward(self, client: Streams) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(OSError))
            store = await self._target.connect()
            stack.callback(store[1].close)
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
