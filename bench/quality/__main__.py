"""The command `python -m bench.quality`: measures answers, and compares them with stored scores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.markdown import Markdown

from bench.harness.collection import Collection, left_without_facts
from bench.harness.connections import LIMIT, connected
from bench.harness.results import run_folder
from bench.harness.service import running
from bench.quality import memories, slices
from bench.quality.command import console, ended_by_message, read_sets, results_option
from bench.quality.pages import folder
from bench.quality.pages.summary import headlines
from bench.quality.scoring import gate, stored
from bench.quality.scoring.stored import Row, StoredError
from bench.quality.session import Measured, Session
from bench.quality.variants.mishearing import NameChange, with_changed_names
from bench.quality.ways import Way, choose, gate_ways, parse_way
from bench.reports import environment
from bench.reports.progress import progress_bars
from trivium.tuning import Profile

FAILED = 1

Choose = Callable[[Sequence[Profile]], Sequence[Way]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure.

    Args:
        collections: The sets, no two of one name.
        choose: Chooses the ways among the profiles of the service, the baseline first.
        address: Of a running service; None starts one on fresh data.
        limit: How many hits to ask for.
        callers: How many questions at a time.
    """

    collections: Sequence[Collection]
    choose: Choose
    address: str | None
    limit: int
    callers: int


def _ways(_context: click.Context, _option: click.Parameter, given: Sequence[str]) -> list[Way]:
    try:
        return [parse_way(each) for each in given]
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "folders",
    nargs=-1,
    metavar="[FOLDER]...",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@click.option("--profile", "profiles", multiple=True, metavar="NAME", help="Ask this profile.")
@click.option(
    "--way",
    "ways",
    multiple=True,
    callback=_ways,
    metavar="'NAME=PROFILE FIELD=VALUE ...'",
    help="Ask a profile with changes, and call it NAME.",
)
@click.option(
    "--without", "without_legs", multiple=True, metavar="LEG", help="Ask the baseline without it."
)
@click.option(
    "--baseline", default="", metavar="WAY", help="The way that the others are compared with."
)
@results_option
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="A running service, instead of starting one. The sets are written to it, and stay.",
)
@click.option(
    "--names",
    "name_change",
    type=click.Choice([name_change.value for name_change in NameChange]),
    help="Change the names in questions: to what speech recognition writes, or to short forms.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of what is misheard.")
@click.option(
    "--without-facts",
    is_flag=True,
    help="Leave the facts of the sets out, to measure what the service extracts (or has without).",
)
@click.option("--limit-queries", type=click.IntRange(min=1), help="At most so many of each set.")
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=100),
    default=LIMIT,
    show_default=True,
    help="How many hits to ask for.",
)
@click.option(
    "--callers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many questions at a time.",
)
@click.option(
    "--skip-unreadable", is_flag=True, help="Leave out lines that cannot be read, and go on."
)
@click.option(
    "--gate",
    "gate_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Compare with these stored scores; end with 1 if any fell significantly.",
)
@click.option(
    "--store",
    "store_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the scores to this file, for --gate.",
)
@click.pass_context
def main(
    ctx: click.Context,
    folders: Sequence[Path],
    profiles: Sequence[str],
    ways: Sequence[Way],
    without_legs: Sequence[str],
    baseline: str,
    out: Path,
    address: str | None,
    name_change: str | None,
    seed: int,
    without_facts: bool,
    limit_queries: int | None,
    limit: int,
    callers: int,
    skip_unreadable: bool,
    gate_file: Path | None,
    store_file: Path | None,
) -> None:
    """Measure how good the answers to the questions of each FOLDER are.

    A FOLDER has corpus.jsonl, queries.jsonl and qrels.tsv, as BEIR has them; without one, the
    sets that ship are asked. Without a profile or a way, each leg of the default profile is
    asked alone and left out; for a gate, only alone. docs/quality.md is the guide.
    """
    given = [*(Way(name, name) for name in profiles), *ways]
    gating = bool(gate_file or store_file)

    def chosen(of: Sequence[Profile]) -> Sequence[Way]:
        fallback = gate_ways(of) if gating and not without_legs else ()
        return choose(of, given or fallback, without_legs, baseline)

    with ended_by_message():
        collections = read_sets(
            folders or (*slices.FOLDERS, *memories.FOLDERS), limit_queries, skip_unreadable
        )
        if name_change is not None:
            collections = [
                with_changed_names(each, NameChange(name_change), seed) for each in collections
            ]
        if without_facts:
            collections = [left_without_facts(each) for each in collections]
        before = stored.read_rows(gate_file) if gate_file else []
        plan = Plan(
            collections=collections, choose=chosen, address=address, limit=limit, callers=callers
        )
        rows = asyncio.run(_measure(plan, out))
        if store_file is not None:
            _store(store_file, rows)
        passed = not gate_file or _gate(before, rows)
    ctx.exit(0 if passed else FAILED)


async def _measure(plan: Plan, out: Path) -> list[Row]:
    """Measures the sets in order, and writes each to disk when it is complete."""
    rows: list[Row] = []
    async with running(plan.address) as address, connected(address, 1) as connections:
        profiles = await connections.profiles()
        ways = plan.choose(profiles)
        for collection in plan.collections:
            with progress_bars(console) as bars:
                session = Session(
                    connections, profiles, bars, limit=plan.limit, callers=plan.callers
                )
                measured = await session.measure(collection, ways)
            _write(out, measured, plan.limit)
            rows += (
                row for each in measured.answers for row in stored.rows_of(collection.name, each)
            )
    return rows


def _write(out: Path, measured: Measured, limit: int) -> None:
    collection = measured.collection
    records = folder.records_of(measured, environment.about(collection), limit=limit)
    where = run_folder(f"quality-{collection.name}", out)
    folder.write(where, measured, records)
    console.print(Markdown(headlines(records)))
    console.print(f"written to {where}", markup=False)


def _store(path: Path, rows: Sequence[Row]) -> None:
    if faulty := [row for row in rows if row.fault]:
        raise StoredError(
            f"{len(faulty)} answers are not whole, such as that to {faulty[0].query!r} "
            f"({faulty[0].fault}): nothing is stored"
        )
    stored.write_rows(path, rows)
    console.print(f"stored in {path}", markup=False)


def _gate(before: Sequence[Row], now: Sequence[Row]) -> bool:
    compared = gate.compare(before, now)
    console.print(Markdown(gate.verdict(compared)))
    return not any(each.fell for each in compared)


if __name__ == "__main__":
    main()
