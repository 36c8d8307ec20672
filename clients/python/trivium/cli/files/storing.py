"""Stores items that were read from files, and prints the outcome."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from trivium.cli.connection import Connection
from trivium.cli.output import plain, stderr, stdout, styled, table
from trivium.files.reading import Found
from trivium.files.records import Problem
from trivium.values import Item, StreamResult
from trivium.wire.channel import DEFAULT_STREAM_TIMEOUT_S

MAX_PROBLEMS_SHOWN = 50

text_search_option = click.option(
    "--text-search-config",
    default="",
    metavar="NAME",
    help="The text search of a new tenant, such as german or simple.  [default: english]",
)


@dataclass(frozen=True, slots=True)
class Stored:
    """The outcome of one tenant's items."""

    tenant: str
    result: StreamResult


def store(
    connection: Connection,
    found: Sequence[Found[Item]],
    problems: list[Problem],
    *,
    tenant_from_scope: bool,
    text_search_config: str,
) -> list[Stored]:
    """Stores items, each for its tenant; adds those that the service rejected to the problems."""
    by_tenant = _by_tenant(found, connection, tenant_from_scope)
    stored = []
    with _progress_bar(len(found)) as bar:
        for tenant, items in by_tenant.items():
            result = _store(connection, tenant, items, text_search_config, bar)
            stored.append(Stored(tenant, result))
            problems += _rejections(result, items)
    return stored


def _by_tenant(
    found: Sequence[Found[Item]], connection: Connection, tenant_from_scope: bool
) -> dict[str, list[Found[Item]]]:
    by_tenant: dict[str, list[Found[Item]]] = defaultdict(list)
    for each in found:
        tenant = each.scope if tenant_from_scope and each.scope else connection.tenant_or_fail()
        by_tenant[tenant].append(each)
    return by_tenant


def _store(
    connection: Connection,
    tenant: str,
    found: Sequence[Found[Item]],
    text_search_config: str,
    bar: Progress,
) -> StreamResult:
    task = bar.task_ids[0]
    before = bar.tasks[0].completed
    with connection.open(tenant) as client:
        return client.ingest_stream(
            (each.item for each in found),
            text_search_config=text_search_config,
            timeout=connection.timeout or DEFAULT_STREAM_TIMEOUT_S,
            progress=lambda count: bar.update(task, completed=before + count),
        )


def _progress_bar(total: int) -> Progress:
    columns = (TextColumn("storing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=stderr())
    bar.add_task("storing", total=total)
    return bar


def _rejections(result: StreamResult, found: Sequence[Found[Item]]) -> Iterator[Problem]:
    for outcome in result.rejected:
        place = found[outcome.index].place
        for field, description in outcome.violations or (("", "was rejected"),):
            yield Problem(place, f"{field.rpartition('.')[2]} {description}".strip())


def rejected_count(stored: Sequence[Stored]) -> int:
    """The number of items that the service rejected."""
    return sum(each.result.rejected_count for each in stored)


def print_problems(problems: Sequence[Problem]) -> None:
    """Prints the first problems, each with its place, and the number of the others."""
    for problem in problems[:MAX_PROBLEMS_SHOWN]:
        click.echo(plain(str(problem)), err=True)
    if len(problems) > MAX_PROBLEMS_SHOWN:
        click.echo(f"and {len(problems) - MAX_PROBLEMS_SHOWN} more problems", err=True)


def print_stored(stored: Sequence[Stored], rejected_count: int, what: str = "line") -> None:
    """Prints the counts of each tenant, and tokens on lines of their own, to be copied whole."""
    rows = table("tenant", "created", "updated", "unchanged")
    for each in stored:
        result = each.result
        counts = (result.created_count, result.updated_count, result.unchanged_count)
        rows.add_row(styled(each.tenant), *map(str, counts))
    stdout().print(rows)
    if rejected_count:
        click.echo(f"rejected {rejected_count} {what}{'s' if rejected_count > 1 else ''}")
    for each in stored:
        if token := each.result.consistency_token:
            of_tenant = f" of {plain(each.tenant)}" if len(stored) > 1 else ""
            click.echo(f"consistency token{of_tenant} {plain(token)}")
