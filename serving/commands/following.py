"""Runs a projection of the change log in a command, and shows how far it is."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import click

from serving.adapters.postgres.assembly import Postgres
from serving.composition.background import in_background
from serving.pipeline.writes.projector import ProjectionWork, Projector
from serving.pipeline.writes.projector import __name__ as projector_log

SHOW_EVERY_S = 2.0


class _Deferrals(logging.Handler):
    """Shows why a projection waits: PostgreSQL or another service cannot be reached, or is busy."""

    def emit(self, record: logging.LogRecord) -> None:
        reason = getattr(record, "reason", "")
        click.echo(f"{record.getMessage()}: {reason}" if reason else self.format(record), err=True)


async def follow(
    postgres: Postgres,
    work: ProjectionWork,
    progress: Callable[[], Awaitable[str]],
    *,
    in_use: bool = True,
) -> None:
    """Projects, or watches the service that does, until the end of the log is reached.

    Args:
        postgres: Has the log.
        work: The projection.
        progress: Makes the line that is shown when it has changed.
        in_use: As of `Projector`.
    """
    logging.getLogger(projector_log).addHandler(_Deferrals(logging.WARNING))
    log, model, shown = postgres.change_log, await work.model(), ""
    async with in_background(Projector(log, work, in_use=in_use).run()):
        while True:
            pending = [
                status.pending
                for status in await log.status(model)
                if status.projection == work.projection
            ]
            line = await progress()
            if line != shown:
                click.echo(line)
                shown = line
            if pending == [0]:
                return
            await log.wait(SHOW_EVERY_S)
