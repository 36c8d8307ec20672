"""`python -m serving extract`: reads facts out of the stored turns, or says what it would cost."""

from __future__ import annotations

import asyncio
from collections import Counter

import click

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.migration import migrate
from serving.commands.database import address_of_postgres, brief_errors
from serving.commands.following import follow
from serving.composition.projection import extraction_work
from serving.config.settings import Settings
from serving.pipeline.writes.extraction import Extracted, ExtractionCost

PER_TURNS = 1000


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
            if dry_run:
                say_cost(await extraction.estimate())
                return
            if failed:
                count = await postgres.extractions.read_failed_again()
                click.echo(f"{count} turns that failed are read again")

            async def progress() -> str:
                so_far = await postgres.extractions.progress()
                read = f"{so_far.read} of {so_far.turns} turns read"
                return f"{read}, {so_far.failed} failed"

            await follow(postgres, extraction, progress)
            say_tally(tally)

    with brief_errors(), address_of_postgres(settings) as dsn:
        asyncio.run(work(dsn))


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
