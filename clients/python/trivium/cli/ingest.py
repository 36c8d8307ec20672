"""`trivium ingest`: stores the turns and facts of files, and the objects of Python projects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from trivium.channel import DEFAULT_STREAM_TIMEOUT_S
from trivium.cli.connection import Connection, pass_connection
from trivium.cli.exits import Exit
from trivium.cli.output import json_option, plain, print_json, stderr, stdout, styled, table
from trivium.python_objects import read_python
from trivium.reading import Found, read_items
from trivium.records import Problem
from trivium.values import Item, StreamResult

MAX_PROBLEMS_SHOWN = 50

# \b keeps click from rewrapping.
_FILES = """\b
A FILE has, line by line (- is standard input):
  segments    {"id": ..., "text": ..., "speaker": ..., "timestamp": ..., ...}
  relations   {"subject": ..., "relation": ..., "object": ..., "evidence": [...], ...}
  transcript  Speaker: text
"""


@dataclass(frozen=True, slots=True)
class _Stored:
    """What became of one tenant's items."""

    tenant: str
    result: StreamResult


@click.command(epilog=_FILES)
@click.argument(
    "files",
    nargs=-1,
    metavar="[FILE]...",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
@click.option(
    "--python",
    "projects",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Store the files, classes and functions of a Python project, and what calls what.",
)
@click.option(
    "--tenant-from-scope",
    is_flag=True,
    help="Store each line for the tenant that its `scope` names.",
)
@click.option(
    "--text-search-config",
    default="",
    metavar="NAME",
    help="The language of a new tenant, such as german or simple.  [default: english]",
)
@json_option
@pass_connection
@click.pass_context
def ingest(
    ctx: click.Context,
    connection: Connection,
    files: Sequence[str],
    projects: Sequence[str],
    tenant_from_scope: bool,
    text_search_config: str,
    as_json: bool,
) -> None:
    """Stores what was said and what is known.

    Give relations along with their segments: they tell what a segment mentions.
    Storing a file again changes nothing. Lines that cannot be read are named, and
    the others stored.

    Of a Python project nothing is run. What has gone from it since it was stored
    stays: give it a tenant of its own, to forget and store it anew.
    """
    if not files and not projects:
        raise click.UsageError("store what? Give a FILE, or --python DIR.")
    left_out: list[Problem] = []
    objects = [each for project in projects for each in read_python(project, left_out.append)]
    problems = [*left_out]
    said = read_items(files, problems.append)
    by_tenant = _by_tenant([*objects, *said], connection, tenant_from_scope)
    stored = []
    with _progress_bar(sum(map(len, by_tenant.values()))) as bar:
        for tenant, found in by_tenant.items():
            result = _store(connection, tenant, found, text_search_config, bar)
            stored.append(_Stored(tenant, result))
            problems += _rejections(result, found)
    _print_problems(problems)
    if left_out:
        click.echo(f"Python files that could not be read: {len(left_out)}", err=True)
    if as_json:
        print_json({"stored": stored, "problems": [str(problem) for problem in problems]})
    else:
        _print_stored(stored)
    rejected = bool(problems) or any(each.result.rejected_count for each in stored)
    ctx.exit(Exit.REJECTED if rejected else Exit.OK)


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


def _print_stored(stored: Sequence[_Stored]) -> None:
    rows = table("tenant", "new", "replaced", "unchanged", "rejected", "token")
    for each in stored:
        result = each.result
        counts = (
            result.created_count,
            result.updated_count,
            result.unchanged_count,
            result.rejected_count,
        )
        rows.add_row(styled(each.tenant), *map(str, counts), styled(result.token))
    stdout().print(rows)
