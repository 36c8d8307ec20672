"""The command `trivium-import`: stores what other memories export."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import click

from trivium.cli.connection import Connection, connection_options, pass_connection
from trivium.cli.exits import ErrorBoundary, Exit, exit_codes_help
from trivium.cli.files.storing import (
    Stored,
    print_problems,
    print_stored,
    rejected_count,
    store,
    text_search_option,
)
from trivium.cli.output import counter, json_option, plain, print_json, stdout, styled, table
from trivium.files.reading import Found
from trivium.values import Item
from trivium_importers.qdrant import TEXT_KEYS
from trivium_importers.sources import CSV, QDRANT, SOURCES, read_exported
from trivium_importers.translation import Translation, Unmapped

MAX_EXAMPLE = 40


@click.command(
    cls=ErrorBoundary,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=exit_codes_help(),
)
@click.argument("source", metavar="SOURCE", type=click.Choice(list(SOURCES)))
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, allow_dash=True),
)
@click.option("--dry-run", is_flag=True, help="Store nothing, and call no service.")
@click.option(
    "--text-key",
    default="",
    metavar="KEY",
    help="Where a payload of Qdrant, or a row of CSV, has its text.  "
    f"[default: the first of {', '.join(TEXT_KEYS)}]",
)
@click.option(
    "--tenant-from-scope",
    is_flag=True,
    help="Store each record for the tenant named as its user, group or agent.",
)
@text_search_option
@json_option
@connection_options
@pass_connection
@click.pass_context
def trivium_import(
    ctx: click.Context,
    connection: Connection,
    source: str,
    files: Sequence[str],
    dry_run: bool,
    text_key: str,
    tenant_from_scope: bool,
    text_search_config: str,
    as_json: bool,
) -> None:
    """Stores what another memory exported, and reports what was not mapped.

    SOURCE is mem0, graphiti, zep, letta, qdrant or cogx, whose FILE is a JSON
    document or JSON lines, or a folder of such files; or it is markdown, text
    or csv. - is standard input. Importing a file again changes nothing. Records that cannot be
    read are reported; the others are stored.
    """
    if text_key and source not in (QDRANT, CSV):
        raise click.UsageError(f"--text-key is for {QDRANT} and {CSV} only")
    translation = Translation()
    found = _counted(read_exported(source, files, translation, text_key=text_key))
    problems = translation.problems
    count = len({problem.place for problem in problems})
    stored: list[Stored] = []
    if not tenant_from_scope:
        _warn_of_owners(found)
    if not dry_run:
        stored = store(
            connection,
            found,
            problems,
            tenant_from_scope=tenant_from_scope,
            text_search_config=text_search_config,
        )
        count += rejected_count(stored)
    print_problems(problems)
    if as_json:
        print_json(_report(translation, stored))
    else:
        _print_translation(translation)
        if dry_run:
            click.echo(f"would store {len(found)} items and reject {count} records")
        else:
            print_stored(stored, count, "record")
    ctx.exit(Exit.REJECTED if count else Exit.OK)


def _counted(items: Iterable[Found[Item]]) -> list[Found[Item]]:
    """Reads all items, and shows how many they are so far."""
    found = []
    with counter() as progress:
        task = progress.add_task("read")
        for each in items:
            found.append(each)
            progress.advance(task)
    return found


def _warn_of_owners(found: Sequence[Found[Item]]) -> None:
    owners = sorted({each.scope for each in found if each.scope})
    if len(owners) > 1:
        some = ", ".join(owners[:3]) + (", ..." if len(owners) > 3 else "")
        advice = "they share one tenant; --tenant-from-scope keeps them apart"
        click.echo(plain(f"records of {len(owners)} owners ({some}): {advice}"), err=True)


def _report(translation: Translation, stored: Sequence[Stored]) -> object:
    mapped = [{**key._asdict(), "count": count} for key, count in translation.mapped.items()]
    return {
        "stored": stored,
        "mapped": mapped,
        "unmapped": [
            {"record": each.kind, "field": each.field, "count": each.count}
            | {"at": str(each.place), "example": each.example}
            for each in translation.unmapped
        ],
        "times_read_as_utc": translation.times_read_as_utc,
        "problems": [str(problem) for problem in translation.problems],
    }


def _print_translation(translation: Translation) -> None:
    mapped = table("record", "mapped to", "count")
    for (kind, item), count in translation.mapped.items():
        mapped.add_row(styled(kind), item, str(count))
    stdout().print(mapped)
    if count := translation.times_read_as_utc:
        click.echo(f"read {count} times without a time zone as UTC")
    if not translation.unmapped:
        return
    unmapped = table("not mapped", "count", "example", "at")
    unmapped.columns[-1].overflow = "fold"
    for each in translation.unmapped:
        name = f"{each.kind}.{each.field}" if each.field else each.kind
        unmapped.add_row(styled(name), str(each.count), _example(each), styled(str(each.place)))
    stdout().print(unmapped)


def _example(unmapped: Unmapped) -> str:
    text = json.dumps(unmapped.example, ensure_ascii=False)
    return plain(text if len(text) <= MAX_EXAMPLE else f"{text[: MAX_EXAMPLE - 3]}...")
