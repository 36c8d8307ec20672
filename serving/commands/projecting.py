"""`trivium-server embed` and `extract`: projections that a command runs, and their progress."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable

import click

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.commands.database import address_of_postgres, brief_errors
from serving.composition.background import in_background
from serving.composition.models import open_embedder
from serving.composition.projection import extraction_work
from serving.config.settings import Settings
from serving.pipeline.writes.extraction import Extracted
from serving.pipeline.writes.projector import EmbeddingWork, ProjectionWork, Projector
from serving.pipeline.writes.projector import __name__ as projector_log
from serving.telemetry import NoRecorder

SHOW_EVERY_S = 2.0


def embed(settings: Settings) -> None:
    """Embeds until no row lacks a vector of the model of the settings, and shows the progress."""

    async def work(postgres: Postgres) -> None:
        async with open_embedder(settings, NoRecorder()) as embedder:
            model = await embedder.model()

            async def progress() -> str:
                share = await postgres.feed.embedded_share(model)
                return f"{int(100 * share)} % of the rows are embedded by {settings.embedder.model}"

            # Not in use: the service may still answer by another model.
            embedding = EmbeddingWork(postgres.change_log, embedder)
            await _follow(postgres, embedding, progress, in_use=False)

    _in_postgres(settings, work)


def extract(settings: Settings, *, failed: bool) -> None:
    """Extracts until no turn waits, and shows the progress; ends early by Ctrl-C."""
    if settings.extraction.api is None:
        raise click.ClickException(
            "no extractor: set TRIVIUM_EXTRACTION__API__URL and TRIVIUM_EXTRACTION__API__MODEL"
        )

    async def work(postgres: Postgres) -> None:
        tally = Tally()
        async with extraction_work(settings.extraction, postgres, tally.add) as extraction:
            if failed:
                count = await postgres.extractions.read_failed_again()
                click.echo(f"{count} turns that failed are read again")

            async def progress() -> str:
                so_far = await postgres.extractions.progress()
                read = f"{so_far.read} of {so_far.turns} turns read"
                return f"{read}, {so_far.failed} failed"

            await _follow(postgres, extraction, progress)
            say_tally(tally)

    _in_postgres(settings, work)


class Tally:
    """Counts what this command extracted."""

    def __init__(self) -> None:
        self.facts: Counter[str] = Counter()
        self.unusable: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()

    def add(self, extracted: Extracted) -> None:
        """Counts one request."""
        self.facts.update(extracted.facts)
        self.tokens.update(sent=extracted.sent_tokens, received=extracted.received_tokens)
        if extracted.unusable:
            self.unusable[extracted.unusable] += extracted.turns


def say_tally(tally: Tally) -> None:
    """Prints what came of it."""
    for outcome, count in sorted(tally.facts.items()):
        click.echo(f"facts {outcome.replace('_', ' for its ')}: {count}")
    for reason, count in sorted(tally.unusable.items()):
        click.echo(f"turns not read, unusable answer ({reason}): {count}")
    if tally.tokens["sent"] or tally.tokens["received"]:
        click.echo(f"tokens: {tally.tokens['sent']:,} sent, {tally.tokens['received']:,} received")


def _in_postgres(settings: Settings, work: Callable[[Postgres], Awaitable[None]]) -> None:
    async def migrated(dsn: str) -> None:
        await migrate(dsn)
        async with Postgres(dsn) as postgres:
            await work(postgres)

    with brief_errors(), address_of_postgres(settings) as dsn:
        asyncio.run(migrated(dsn))


class _Deferrals(logging.Handler):
    """Shows why a projection waits: PostgreSQL or another service cannot be reached, or is busy."""

    def emit(self, record: logging.LogRecord) -> None:
        reason = getattr(record, "reason", "")
        click.echo(f"{record.getMessage()}: {reason}" if reason else self.format(record), err=True)


async def _follow(
    postgres: Postgres,
    work: ProjectionWork,
    progress: Callable[[], Awaitable[str]],
    *,
    in_use: bool = True,
) -> None:
    """Projects, or watches the service that does, until the end of the log is reached.

    The line of `progress` is shown when it has changed.
    """
    logging.getLogger(projector_log).addHandler(_Deferrals(logging.WARNING))
    log, model, shown = postgres.change_log, await work.model(), ""
    async with in_background(Projector(log, work, in_use=in_use).run()):
        while True:
            pending = {each.projection: each.pending for each in await log.status(model)}
            line = await progress()
            if line != shown:
                click.echo(line)
                shown = line
            if pending.get(work.projection) == 0:
                return
            await log.wait(SHOW_EVERY_S)
