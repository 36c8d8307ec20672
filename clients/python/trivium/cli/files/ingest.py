"""`trivium ingest`: stores the segments and facts of files."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from trivium.cli.connection import Connection, pass_connection
from trivium.cli.exits import Exit
from trivium.cli.output import json_option, plain, print_json, stderr, stdout, styled, table
from trivium.files.reading import RELATION_FIELDS, SEGMENT_FIELDS, Found, read_items
from trivium.files.records import Problem
from trivium.values import Item, StreamResult
from trivium.wire.channel import DEFAULT_STREAM_TIMEOUT_S

MAX_PROBLEMS_SHOWN = 50

# \b keeps click from rewrapping.
_FILES = """\b
A FILE has, line by line (- is standard input):
  segments    JSON objects with id, text
  relations   JSON objects with subject, relation, object
  transcript  Speaker: text
"""


def _optional(fields: frozenset[str], needed: Sequence[str]) -> str:
    names = ", ".join(sorted(fields - {*needed, "_id", "metadata", "doc_id"}))
    lines = textwrap.wrap(names, 76, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


_FIELDS = f"""\b
Further fields of a segment:
{_optional(SEGMENT_FIELDS, ("id", "text"))}

\b
Further fields of a relation:
{_optional(RELATION_FIELDS, ("subject", "relation", "object"))}
"""


@dataclass(frozen=True, slots=True)
class _Stored:
    """The outcome of one tenant's items."""

    tenant: str
    result: StreamResult


@click.command(epilog=f"{_FILES}\n{_FIELDS}")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
@click.option(
    "--tenant-from-scope",
    is_flag=True,
    help="Store each line for the tenant in its `scope`.",
)
@click.option(
    "--text-search-config",
    default="",
    metavar="NAME",
    help="The text search of a new tenant, such as german or simple.  [default: english]",
)
@json_option
@pass_connection
@click.pass_context
def ingest(
    ctx: click.Context,
    connection: Connection,
    files: Sequence[str],
    tenant_from_scope: bool,
    text_search_config: str,
    as_json: bool,
) -> None:
    """Stores the segments and facts of files.

    Pass relations together with their segments: they name the entities that a
    segment mentions. Storing a file again changes nothing. Lines that cannot be
    read are reported; the others are stored.
    """
    problems: list[Problem] = []
    found = list(read_items(files, problems.append))
    unread_count = len({problem.place for problem in problems})
    by_tenant = _by_tenant(found, connection, tenant_from_scope)
    stored = []
    with _progress_bar(sum(map(len, by_tenant.values()))) as bar:
        for tenant, items in by_tenant.items():
            result = _store(connection, tenant, items, text_search_config, bar)
            stored.append(_Stored(tenant, result))
            problems += _rejections(result, items)
    rejected_count = unread_count + sum(each.result.rejected_count for each in stored)
    _print_problems(problems)
    if as_json:
        print_json({"stored": stored, "problems": [str(problem) for problem in problems]})
    else:
        _print_stored(stored, rejected_count)
    ctx.exit(Exit.REJECTED if rejected_count else Exit.OK)


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


def _print_problems(problems: Sequence[Problem]) -> None:
    for problem in problems[:MAX_PROBLEMS_SHOWN]:
        click.echo(plain(str(problem)), err=True)
    if len(problems) > MAX_PROBLEMS_SHOWN:
        click.echo(f"and {len(problems) - MAX_PROBLEMS_SHOWN} more problems", err=True)


def _print_stored(stored: Sequence[_Stored], rejected_count: int) -> None:
    """Prints the counts of each tenant, and tokens on lines of their own, to be copied whole."""
    rows = table("tenant", "created", "updated", "unchanged")
    for each in stored:
        result = each.result
        counts = (result.created_count, result.updated_count, result.unchanged_count)
        rows.add_row(styled(each.tenant), *map(str, counts))
    stdout().print(rows)
    if rejected_count:
        click.echo(f"rejected {rejected_count} line{'s' if rejected_count > 1 else ''}")
    for each in stored:
        if token := each.result.consistency_token:
            of_tenant = f" of {plain(each.tenant)}" if len(stored) > 1 else ""
            click.echo(f"consistency token{of_tenant} {plain(token)}")
