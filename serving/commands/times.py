"""`trivium-server time-zone` and `mentions`: when a tenant's turns are said, and speak of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from functools import partial

import click

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.log.verification import PostgresTruth
from serving.adapters.postgres.tables.tenants import Tenant, find_tenant, set_time_zone
from serving.adapters.postgres.writes.mentions import read_mentions_again
from serving.commands.database import in_database
from serving.config.settings import Settings
from serving.domain.items.period import Period
from serving.domain.items.records import TenantName
from serving.domain.questions.time_zones import parse_time_zone
from serving.pipeline.writes.ingest import mentions_of


def set_zone(settings: Settings, *, tenant: str, time_zone: str) -> None:
    """Sets the zone of requests that name none, or shows it if none is given."""
    try:
        zone = parse_time_zone(time_zone)
    except ValueError as error:
        raise click.ClickException(f"the time zone {error}") from error

    async def work(database: Database) -> Tenant | None:
        async with database.transaction() as connection:
            if time_zone:
                await set_time_zone(connection, TenantName(tenant), zone)
            return await find_tenant(connection, TenantName(tenant))

    found = in_database(settings, work)
    if found is None:
        raise click.ClickException(f"no tenant {tenant!r}; its first write creates it")
    click.echo(f"{tenant}: {parse_time_zone(found.time_zone)}")
    if time_zone:
        click.echo("`trivium-server mentions` reads its stored turns again")


def read_mentions(settings: Settings, *, tenant: str) -> None:
    """Reads the segments of a tenant, or of all, and says how many speak of another time now."""

    def read_in(zone: tzinfo, text: str, said_at: datetime) -> Sequence[Period]:
        return mentions_of(text, said_at.astimezone(zone))

    async def work(database: Database) -> None:
        tenants = [tenant] if tenant else await PostgresTruth(database).tenants()
        for name in tenants:
            async with database.transaction() as connection:
                found = await find_tenant(connection, TenantName(name))
            zone = parse_time_zone(found.time_zone if found else "")
            changed = await read_mentions_again(database, name, partial(read_in, zone))
            click.echo(f"{name}: {changed} segments speak of another time now")

    in_database(settings, work)
