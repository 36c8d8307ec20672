"""`python -m serving mentions`: reads the times that stored turns speak of again."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.log.verification import PostgresTruth
from serving.adapters.postgres.writes.mentions import Mention, read_mentions_again
from serving.adapters.text_analysis.english_dates import EnglishDates
from serving.commands.database import in_database
from serving.config.settings import Settings
from serving.pipeline.writes.ingest import mention_of


def run(settings: Settings, *, tenant: str, time_zone: str) -> None:
    """Reads the segments of a tenant, or of all, and says how many speak of another time now.

    Raises:
        click.ClickException: There is no such zone, or PostgreSQL cannot be reached.
    """
    try:
        zone = ZoneInfo(time_zone) if time_zone else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise click.ClickException(
            f"{time_zone!r} is no time zone; use a name such as Europe/Lisbon"
        ) from None
    dates = EnglishDates()

    def read(text: str, said_at: datetime) -> Mention | None:
        return mention_of(text, said_at.astimezone(zone), dates)

    async def work(database: Database) -> None:
        tenants = [tenant] if tenant else await PostgresTruth(database).tenants()
        for name in tenants:
            changed = await read_mentions_again(database, name, read)
            click.echo(f"{name}: {changed} segments speak of another time now")

    in_database(settings, work)
