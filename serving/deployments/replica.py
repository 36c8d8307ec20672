"""The common part of every deployment's replica: its start, its end, and its log."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from serving.composition.process import set_up_interpreter, write_no_core_dumps
from serving.config.settings import Settings, load_settings
from serving.rpc.boundary import LONGEST_REQUEST_ID, REQUEST_ID

SERVE_LOGGER = "ray.serve"

Opened = TypeVar("Opened")


class Replica:
    """Base class of the deployments.

    A subclass calls `_start` and then `_open` in its `async __init__`; `__del__` closes what was
    opened. Serve awaits both.
    """

    _context: AbstractAsyncContextManager[Any] | None = None

    def _start(self, arguments: dict[str, Any]) -> Settings:
        """Sends our logs through Serve's handlers, and reads the settings.

        Before it reads them, which have passwords, it makes sure that no core dump is written.
        """
        write_no_core_dumps()
        log_through_serve()
        return load_settings(arguments)

    async def _open(self, context: AbstractAsyncContextManager[Opened]) -> Opened:
        opened = await context.__aenter__()
        self._context = context
        set_up_interpreter()
        return opened

    async def __del__(self) -> None:
        if self._context is not None:
            await self._context.__aexit__(None, None, None)


def bounded_request_id(record: logging.LogRecord) -> bool:
    """Shortens the request id of a record of Serve's, which is whatever the caller sent."""
    given = getattr(record, REQUEST_ID, "")
    if len(given) > LONGEST_REQUEST_ID:
        setattr(record, REQUEST_ID, given[:LONGEST_REQUEST_ID])
    return True


def log_through_serve() -> None:
    """Gives our loggers the handlers and the level of Serve's: JSON lines with the request id."""
    ours, serves = logging.getLogger("serving"), logging.getLogger(SERVE_LOGGER)
    for handler in serves.handlers:
        handler.addFilter(bounded_request_id)  # kept once, however often it is added
    ours.handlers = serves.handlers
    ours.setLevel(serves.level)
    ours.propagate = False
