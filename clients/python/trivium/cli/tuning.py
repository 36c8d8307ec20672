"""`trivium profiles`, `compare` and `why`: tools for tuning the ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from trivium.cli.answer import print_hits, shortcomings
from trivium.cli.connection import Connection, pass_connection, says_unknown
from trivium.cli.exits import Exit
from trivium.cli.output import (
    json_option,
    plain,
    print_json,
    print_yaml,
    stdout,
    styled,
    table,
)
from trivium.cli.ranking import (
    as_of_option,
    known_at_option,
    limit_option,
    profile_option,
    profile_overrides_option,
    seed_ids_option,
    to_overrides,
)
from trivium.tuning import Absence, Comparison, Loss, Profile, RankChange
from trivium.values import Hit

FIRST = ("description", "limit", "legs")
"""The fields at the start of a profile file."""


@click.command()
@click.argument("name", required=False)
@json_option
@pass_connection
@click.pass_context
def profiles(ctx: click.Context, connection: Connection, name: str | None, as_json: bool) -> None:
    """Lists the ranking profiles; with NAME, shows all fields of one.

    Exits with 1 if there is no such profile.
    """
    with connection.open(tenant=connection.tenant or "-") as client:
        found = [each for each in client.list_profiles() if name is None or each.name == name]
    if as_json:
        print_json(found)
    elif name is None:
        stdout().print(_listed(found))
    else:
        for profile in found:
            _print_profile(profile)
    if not found:
        click.echo(f"unknown profile {plain(name or '')!r}", err=True)
    ctx.exit(Exit.OK if found else Exit.UNSATISFIED)


@click.command()
@click.argument("question")
@profile_option
@profile_overrides_option
@click.option("--against", default="", metavar="NAME", help="The second profile.")
@click.option(
    "--against-override",
    "against_overrides",
    multiple=True,
    callback=to_overrides,
    metavar="FIELD=VALUE",
    help="Override a field of the second profile.",
)
@limit_option
@as_of_option
@known_at_option
@seed_ids_option
@json_option
@pass_connection
@click.pass_context
def compare(
    ctx: click.Context,
    connection: Connection,
    /,
    question: str,
    against: str,
    against_overrides: Mapping[str, Any],
    as_json: bool,
    **options: Any,
) -> None:
    """Runs QUESTION under two profiles, and shows both rankings side by side.

    Exits with 1 if the tenant is unknown.
    """
    if not against and not against_overrides:
        raise click.UsageError("missing --against or --against-override")
    with connection.open() as client:
        found = client.compare(
            question, against=against, against_overrides=against_overrides, **options
        )
        unknown = not found.rank_changes and says_unknown(client)
    if as_json:
        print_json(found)
    else:
        _print_comparison(found)
    ctx.exit(Exit.UNSATISFIED if unknown else Exit.OK)


@click.command()
@click.argument("question")
@click.argument("id_", metavar="ID")
@click.option("--fact", is_flag=True, help="ID is the id of a fact.")
@profile_option
@profile_overrides_option
@limit_option
@as_of_option
@known_at_option
@seed_ids_option
@json_option
@pass_connection
@click.pass_context
def why(
    ctx: click.Context,
    connection: Connection,
    /,
    question: str,
    id_: str,
    fact: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Explains why the item ID is missing from the hits of QUESTION.

    Exits with 1 if it is missing.
    """
    with connection.open() as client:
        absence = client.explain_absence(
            question,
            segment_id="" if fact else id_,
            fact_id=id_ if fact else "",
            **options,
        )
    if as_json:
        print_json(absence)
    else:
        _print_absence(id_, absence)
    ctx.exit(Exit.OK if absence.loss is Loss.NONE else Exit.UNSATISFIED)


def _listed(found: Sequence[Profile]) -> Table:
    rows = table("profile", "description")
    rows.columns[1].ratio = 1
    for profile in found:
        rows.add_row(styled(profile.name, "bold"), styled(profile.description))
    return rows


def _print_profile(profile: Profile) -> None:
    """Prints a profile in the form of its file, with its notes as comments."""
    click.echo(f"# {plain(profile.name)}")
    for leg, note in profile.notes.items():
        click.echo(f"# {leg}: {plain(note)}")
    first = {name: profile.definition[name] for name in FIRST if name in profile.definition}
    print_yaml(first | dict(sorted(profile.definition.items())))


def _print_comparison(found: Comparison) -> None:
    left, right = found.retrieved.profile, found.against.profile
    names = (left, right if right != left else f"{right}, overridden")
    rows = table("id", *names, "", "hit")
    rows.columns[4].ratio, rows.columns[4].no_wrap, rows.expand = 1, True, True
    before = {hit.ref: hit for hit in found.retrieved.hits}
    after = {hit.ref: hit for hit in found.against.hits}
    for change in found.rank_changes:
        hit = before.get(change.item) or after.get(change.item)
        rows.add_row(
            styled(change.item.id),
            _scored(change.rank, before.get(change.item)),
            _scored(change.against_rank, after.get(change.item)),
            _move(change),
            styled(hit.text if hit else ""),
        )
    console = stdout()
    console.print(rows)
    console.print(Text(f"{found.overlap:.0%} of all hits are under both", "dim"))
    for name, answer in zip(names, (found.retrieved, found.against), strict=True):
        for line in shortcomings(answer):
            console.print(styled(f"{name}: {line}", "yellow"))


def _scored(rank: int | None, hit: Hit | None) -> str:
    """A rank and its score."""
    return _rank(rank) if hit is None else f"{_rank(rank)} ({hit.score:.4f})"


def _rank(rank: float | None) -> str:
    return "-" if rank is None else f"{rank:g}"


def _move(change: RankChange) -> Text:
    if change.rank is None:
        return Text("new", "green")
    if change.against_rank is None:
        return Text("gone", "red")
    move = change.rank - change.against_rank
    return Text(f"{move:+d}", "green" if move > 0 else "red") if move else Text("")


def _print_absence(id_: str, absence: Absence) -> None:
    console = stdout()
    found = absence.loss is Loss.NONE
    said = f"is a hit, at rank {absence.rank}" if found else f"{absence.loss}"
    line = f"{id_}: {said}" + (f": {absence.reason}" if absence.reason else "")
    console.print(styled(line, "green" if found else "yellow"))
    if absence.legs:
        rows = table("leg", "state", "deep rank", "deep score", "depth", "reason")
        for leg in absence.legs:
            score = "-" if leg.score is None else f"{leg.score:.4g}"
            rows.add_row(
                leg.leg, leg.state.value, _rank(leg.rank), score, str(leg.depth), styled(leg.reason)
            )
        console.print(rows)
    if absence.hit is not None:
        print_hits([absence.hit], explain=True)
