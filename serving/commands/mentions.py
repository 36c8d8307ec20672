"""`python -m serving mentions`: reads the times that stored turns speak of again."""

from __future__ import annotations

from datetime import datetime, tzinfo
from functools import partial

import click

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.log.verification import PostgresTruth
from serving.adapters.postgres.tables.tenants import find_tenant
from serving.adapters.postgres.writes.mentions import Mention, read_mentions_again
from serving.adapters.text_analysis.english_dates import EnglishDates
from serving.commands.database import in_database
from serving.config.settings import Settings
from serving.domain.items.records import TenantName
from serving.domain.questions.time_zones import parse_time_zone
from serving.pipeline.writes.ingest import mention_of


def run(settings: Settings, *, tenant: str) -> None:
    """Reads the segments of a tenant, or of all, and says how many speak of another time now.

    Raises:
        click.ClickException: PostgreSQL cannot be reached.
    """
    dates = EnglishDates()

    def read_in(zone: tzinfo, text: str, said_at: datetime) -> Mention | None:
        return mention_of(text, said_at.astimezone(zone), dates)

    async def work(database: Database) -> None:
        tenants = [tenant] if tenant else await PostgresTruth(database).tenants()
        for name in tenants:
            async with database.transaction() as connection:
                found = await find_tenant(connection, TenantName(name))
            zone = parse_time_zone(found.time_zone if found else "")
            changed = await read_mentions_again(database, name, partial(read_in, zone))
            click.echo(f"{name}: {changed} segments speak of another time now")

    in_database(settings, work)
