"""`trivium ingest`: stores the segments and facts of files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import click

from trivium.cli.connection import Connection, pass_connection
from trivium.cli.exits import Exit
from trivium.cli.files.storing import (
    print_problems,
    print_stored,
    rejected_count,
    store,
    text_search_option,
)
from trivium.cli.output import json_option, print_json
from trivium.files.reading import RELATION_FIELDS, SEGMENT_FIELDS, read_items
from trivium.files.records import ASSUMED_UTC, Problem
from trivium.values import Item, Segment

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


def _has_zoneless_time(item: Item) -> bool:
    if isinstance(item, Segment):
        times = [item.event_time, item.created_at]
    else:
        times = [item.recorded_at, item.valid_from, item.valid_to, item.retracted_at]
    return any(time is not None and time.tzinfo is ASSUMED_UTC for time in times)


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
@text_search_option
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

    A segment is a line of JSON such as {"text": "We sail.", "speaker": "Nora",
    "timestamp": "2026-06-03T18:00:00Z"}, with an id, session, labels and so on
    if it has them; a fact is one with subject, relation and object. A transcript
    has lines such as Nora: We sail. Items without an id get one from their
    content.

    Pass relations together with their segments: they name the entities that a
    segment mentions. Storing a file again changes nothing. Lines that cannot be
    read are reported; the others are stored.
    """
    problems: list[Problem] = []
    found = list(read_items(files, problems.append))
    unread_count = len({problem.place for problem in problems})
    stored = store(
        connection,
        found,
        problems,
        tenant_from_scope=tenant_from_scope,
        text_search_config=text_search_config,
    )
    count = unread_count + rejected_count(stored)
    print_problems(problems)
    if as_json:
        print_json({"stored": stored, "problems": [str(problem) for problem in problems]})
    else:
        print_stored(stored, count)
        if zoneless := sum(_has_zoneless_time(each.item) for each in found):
            click.echo(f"read the times of {zoneless} items, which have no time zone, as UTC")
    ctx.exit(Exit.REJECTED if count else Exit.OK)
