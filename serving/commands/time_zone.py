"""`python -m serving time-zone`: where a tenant's turns are said."""

from __future__ import annotations

import click

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.tables.tenants import Tenant, find_tenant, set_time_zone
from serving.commands.database import in_database
from serving.config.settings import Settings
from serving.domain.items.records import TenantName
from serving.domain.questions.time_zones import parse_time_zone


def run(settings: Settings, *, tenant: str, time_zone: str) -> None:
    """Sets the zone of requests that name none, or shows it if none is given.

    Raises:
        click.ClickException: There is no such zone or tenant, or PostgreSQL cannot be reached.
    """
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
        click.echo("`python -m serving mentions` reads its stored turns again")
