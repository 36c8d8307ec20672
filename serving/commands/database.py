"""Work on PostgreSQL by a command, without the service."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import click

from serving.adapters.postgres.connection.migrations import SchemaTooNewError, migrate
from serving.adapters.postgres.connection.pool import Database
from serving.config.settings import Settings
from serving.desk.embedded_postgres import EmbeddedPostgres, PostgresStartError
from serving.domain.errors import TriviumError

Result = TypeVar("Result")


def in_database(settings: Settings, work: Callable[[Database], Awaitable[Result]]) -> Result:
    """Runs work on the migrated database; raises as `brief_errors`."""
    with brief_errors(), address_of_postgres(settings) as dsn:
        return asyncio.run(_with_database(dsn, work))


async def _with_database(dsn: str, work: Callable[[Database], Awaitable[Result]]) -> Result:
    await migrate(dsn)
    async with Database(dsn, work_connections=1, search_connections=1) as database:
        return await work(database)


@contextlib.contextmanager
def brief_errors() -> Iterator[None]:
    """Raises a `click.ClickException` for errors of the stores, and of files of the settings."""
    try:
        yield
    except (TriviumError, OSError, SchemaTooNewError, PostgresStartError) as error:
        raise click.ClickException(str(error)) from error


@contextlib.contextmanager
def address_of_postgres(settings: Settings) -> Iterator[str]:
    """The address of PostgreSQL; that of the desk is started if it does not run."""
    if settings.postgres.dsn is not None:
        yield settings.postgres.dsn.get_secret_value()
        return
    with EmbeddedPostgres(settings.data_dir / "postgres") as dsn:
        yield dsn
