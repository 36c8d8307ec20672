"""`python -m serving extract`: reads facts out of the stored turns, or says what it would cost."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import click

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.migration import migrate
from serving.commands.database import address_of_postgres, brief_errors
from serving.composition.background import in_background
from serving.composition.projection import extraction_work
from serving.config.settings import Settings
from serving.pipeline.writes.extraction import Extracted, ExtractionCost, ExtractionWork
from serving.pipeline.writes.projector import Projector
from serving.pipeline.writes.projector import __name__ as projector_log

SHOW_EVERY_S = 2.0
PER_TURNS = 1000


class _Deferrals(logging.Handler):
    """Shows why the extraction waits: PostgreSQL or the extractor cannot be reached, or is busy."""

    def emit(self, record: logging.LogRecord) -> None:
        reason = getattr(record, "reason", "")
        click.echo(f"{record.getMessage()}: {reason}" if reason else self.format(record), err=True)


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


def run(settings: Settings, *, dry_run: bool, failed: bool) -> None:
    """Extracts until no turn waits, and shows the progress; ends early by Ctrl-C.

    Args:
        settings: The settings.
        dry_run: Only estimate the cost; no extractor is asked.
        failed: Read the turns again that failed before.

    Raises:
        click.ClickException: No extractor is named, or PostgreSQL cannot be reached.
    """
    if settings.extraction.api is None:
        raise click.ClickException(
            "no extractor: set TRIVIUM_EXTRACTION__API__URL and TRIVIUM_EXTRACTION__API__MODEL"
        )

    if dry_run and settings.postgres.dsn is None and not (settings.data_dir / "postgres").exists():
        click.echo(f"nothing is stored in {settings.data_dir}")
        return

    async def work(dsn: str) -> None:
        await migrate(dsn)
        tally = Tally()
        async with (
            Postgres(dsn) as postgres,
            extraction_work(settings.extraction, postgres, tally.add) as extraction,
        ):
            if failed and not dry_run:
                count = await postgres.extractions.read_failed_again()
                click.echo(f"{count} turns that failed are read again")
            if dry_run:
                say_cost(await extraction.estimate())
            else:
                await _extract(postgres, extraction)
                say_tally(tally)

    with brief_errors(), address_of_postgres(settings) as dsn:
        asyncio.run(work(dsn))


async def _extract(postgres: Postgres, extraction: ExtractionWork) -> None:
    """Runs the extraction, or watches the service that does, until it has followed the log."""
    logging.getLogger(projector_log).addHandler(_Deferrals(logging.WARNING))
    projector = Projector(postgres.change_log, extraction)
    shown = ""
    async with in_background(projector.run()):
        while True:
            pending = await _pending(postgres)
            progress = await postgres.extractions.progress()
            line = f"{progress.read} of {progress.turns} turns read, {progress.failed} failed"
            if line != shown:
                click.echo(line)
                shown = line
            if pending == 0:
                return
            await postgres.change_log.wait(SHOW_EVERY_S)


async def _pending(postgres: Postgres) -> int | None:
    """The changes that the extraction has not seen; None before it ever ran."""
    for status in await postgres.change_log.status(None):
        if status.projection == ExtractionWork.projection:
            return status.pending
    return None


def say_cost(cost: ExtractionCost) -> None:
    """Prints an estimate."""
    click.echo(f"{cost.turns} turns to read, in {cost.requests} requests")
    if not cost.turns:
        return
    sent = cost.tokens.sent * PER_TURNS // cost.turns
    received = cost.tokens.received * PER_TURNS // cost.turns
    click.echo(
        f"per {PER_TURNS:,} turns: about {sent:,} tokens sent, at most {received:,} received"
    )
    click.echo(
        f"in all: about {cost.tokens.sent:,} sent, at most {cost.tokens.received:,} received"
    )


def say_tally(tally: Tally) -> None:
    """Prints what came of it."""
    for outcome, count in sorted(tally.facts.items()):
        click.echo(f"facts {outcome.replace('_', ' for its ')}: {count}")
    for reason, count in sorted(tally.unusable.items()):
        click.echo(f"turns not read, unusable answer ({reason}): {count}")
    if tally.tokens["sent"] or tally.tokens["received"]:
        click.echo(f"tokens: {tally.tokens['sent']:,} sent, {tally.tokens['received']:,} received")
