"""`trivium profiles`, `compare` and `why`: for those who tune ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from trivium.cli.answer import print_hits, shortcomings
from trivium.cli.connection import Connection, pass_connection
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
    changes_option,
    known_at_option,
    profile_option,
    seeds_option,
    to_changes,
)
from trivium.tuning import Absence, Comparison, Loss, Profile, RankChange
from trivium.values import Hit

FIRST = ("description", "limit", "legs")
"""The fields that a profile file begins with."""


@click.command()
@click.argument("name", required=False)
@json_option
@pass_connection
@click.pass_context
def profiles(ctx: click.Context, connection: Connection, name: str | None, as_json: bool) -> None:
    """Lists the ranking profiles; with NAME, all fields of one.

    Ends with 1 if there is no such profile.
    """
    with connection.open(tenant=connection.tenant or "-") as client:
        found = [each for each in client.profiles() if name is None or each.name == name]
    if as_json:
        print_json(found)
    elif name is None:
        stdout().print(_listed(found))
    else:
        for profile in found:
            _print_profile(profile)
    if not found:
        click.echo(f"no profile is called {plain(name or '')!r}", err=True)
    ctx.exit(Exit.OK if found else Exit.UNSATISFIED)


@click.command()
@click.argument("question")
@profile_option
@changes_option
@click.option("--against", default="", metavar="NAME", help="The other profile.")
@click.option(
    "--against-set",
    "against_changes",
    multiple=True,
    callback=to_changes,
    metavar="FIELD=VALUE",
    help="Change a field of the other profile.",
)
@click.option("--limit", default=0, metavar="N", help="How many hits.  [default: the profile's]")
@as_of_option
@known_at_option
@seeds_option
@json_option
@pass_connection
def compare(
    connection: Connection,
    question: str,
    profile: str,
    changes: Mapping[str, Any],
    against: str,
    against_changes: Mapping[str, Any],
    limit: int,
    as_of: datetime | None,
    known_at: datetime | None,
    seeds: Sequence[str],
    as_json: bool,
) -> None:
    """Asks QUESTION under two profiles, and shows both orders side by side."""
    if not against and not against_changes:
        raise click.UsageError("compare with what? Give --against or --against-set.")
    with connection.open() as client:
        found = client.compare(
            question,
            profile=profile,
            changes=changes,
            against=against,
            against_changes=against_changes,
            limit=limit,
            as_of=as_of,
            known_at=known_at,
            seeds=seeds,
        )
    if as_json:
        print_json(found)
    else:
        _print_comparison(found)


@click.command()
@click.argument("question")
@click.argument("id_", metavar="ID")
@click.option("--fact", is_flag=True, help="ID is that of a fact.")
@profile_option
@changes_option
@click.option("--limit", default=0, metavar="N", help="How many hits.  [default: the profile's]")
@as_of_option
@known_at_option
@seeds_option
@json_option
@pass_connection
@click.pass_context
def why(
    ctx: click.Context,
    connection: Connection,
    question: str,
    id_: str,
    fact: bool,
    profile: str,
    changes: Mapping[str, Any],
    limit: int,
    as_of: datetime | None,
    known_at: datetime | None,
    seeds: Sequence[str],
    as_json: bool,
) -> None:
    """Says why ID is not in the answer to QUESTION: which stage lost it.

    Ends with 1 if it was lost.
    """
    with connection.open() as client:
        absence = client.explain_absence(
            question,
            segment_id="" if fact else id_,
            fact_id=id_ if fact else "",
            profile=profile,
            changes=changes,
            limit=limit,
            as_of=as_of,
            known_at=known_at,
            seeds=seeds,
        )
    if as_json:
        print_json(absence)
    else:
        _print_absence(id_, absence)
    ctx.exit(Exit.OK if absence.loss is Loss.NONE else Exit.UNSATISFIED)


def _listed(found: Sequence[Profile]) -> Table:
    rows = table("profile", "what it is")
    rows.columns[1].ratio = 1
    for profile in found:
        rows.add_row(styled(profile.name, "bold"), styled(profile.description))
    return rows


def _print_profile(profile: Profile) -> None:
    """Shows a profile as its file would have it; what is to be known of it is a comment."""
    click.echo(f"# {plain(profile.name)}")
    for leg, note in profile.notes.items():
        click.echo(f"# {leg}: {plain(note)}")
    first = {name: profile.definition[name] for name in FIRST if name in profile.definition}
    print_yaml(first | dict(sorted(profile.definition.items())))


def _print_comparison(found: Comparison) -> None:
    left, right = found.retrieved.profile, found.against.profile
    names = (left, right if right != left else f"{right}, changed")
    rows = table("id", *names, "", "hit")
    rows.columns[4].ratio, rows.columns[4].no_wrap, rows.expand = 1, True, True
    before = {hit.id: hit for hit in found.retrieved.hits}
    after = {hit.id: hit for hit in found.against.hits}
    for change in found.rank_changes:
        hit = before.get(change.id) or after.get(change.id)
        rows.add_row(
            styled(change.id),
            _scored(change.rank, before.get(change.id)),
            _scored(change.against_rank, after.get(change.id)),
            _move(change),
            styled(hit.text if hit else ""),
        )
    console = stdout()
    console.print(rows)
    console.print(Text(f"{found.overlap:.0%} of all hits are in both", "dim"))
    for name, answer in zip(names, (found.retrieved, found.against), strict=True):
        for line in shortcomings(answer):
            console.print(styled(f"{name}: {line}", "yellow"))


def _scored(rank: int | None, hit: Hit | None) -> str:
    """A rank with the score that it was given for, which compares within its answer only."""
    return _rank(rank) if hit is None else f"{_rank(rank)} ({hit.score:.4f})"


def _rank(rank: int | None) -> str:
    return "-" if rank is None else str(rank)


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
    said = f"is in the answer, at rank {absence.rank}" if found else f"{absence.loss}"
    line = f"{id_}: {said}" + (f": {absence.reason}" if absence.reason else "")
    console.print(styled(line, "green" if found else "yellow"))
    if absence.legs:
        rows = table("leg", "ended", "rank there", "score there", "looked", "why not")
        for leg in absence.legs:
            score = "-" if leg.score is None else f"{leg.score:.4g}"
            rows.add_row(
                leg.leg, leg.state.value, _rank(leg.rank), score, str(leg.depth), styled(leg.reason)
            )
        console.print(rows)
    if absence.hit is not None:
        print_hits([absence.hit], explain=True)
