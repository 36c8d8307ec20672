"""The command `python -m bench.quality.tune`: searches a profile, with held-out evidence.

1. Query the service for the results of each leg and for its answers.
2. Check that the offline replay reproduces the answers.
3. Search on all questions but a fold, fold by fold, and score what was found on the fold.
4. Search on all questions, and write the profile and the evidence.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
from rich.markdown import Markdown

from bench.harness.collection import Collection
from bench.harness.connections import connected
from bench.harness.results import RESULTS, run_folder
from bench.harness.service import running
from bench.quality import memories, slices
from bench.quality.command import console, ended_by_message, folders_argument, read_sets
from bench.quality.run_config import DEFAULT_PROFILE
from bench.quality.session import Session
from bench.quality.tune import evidence
from bench.quality.tune.coordinates import (
    Definition,
    accepted,
    check_tunable,
    coordinates,
)
from bench.quality.tune.leg_lists import query_set
from bench.quality.tune.replay import Replay, check_replay
from bench.quality.tune.search import MAX_SWEEPS, Board, CoordinateSearch, cross_validate, deal
from bench.reports import environment
from bench.reports.progress import progress_bars
from serving.config.profiles.form import to_form
from serving.domain.ranking.profile import Profile
from trivium import tuning


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@folders_argument
@click.option(
    "--profile", default=DEFAULT_PROFILE, show_default=True, metavar="NAME", help="The start."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the profile here too; its name without the suffix is what it will be called.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    help="Where to make a folder for profile and evidence.",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="A running service, instead of starting one. Sets that it lacks are written to it.",
)
@click.option("--folds", type=click.IntRange(min=2), default=5, show_default=True)
@click.option("--limit-queries", type=click.IntRange(min=1), help="At most this many of each set.")
def main(
    folders: Sequence[Path],
    profile: str,
    out: Path | None,
    results: Path,
    address: str | None,
    folds: int,
    limit_queries: int | None,
) -> None:
    """Search weights, depths and floors of a profile on the judged questions of each FOLDER.

    A FOLDER is a set as `python -m bench.quality` takes it; without one, the shipped sets are
    used. Each set counts the same. The search is scored on questions that it has not seen.
    docs/quality.md is the guide.
    """
    folders = folders or (*slices.FOLDERS, *memories.FOLDERS)
    given = ["--profile", profile, "--folds", str(folds)]
    if limit_queries is not None:
        given += ["--limit-queries", str(limit_queries)]
    names = [folder.resolve().name for folder in folders]
    command = shlex.join(["python", "-m", "bench.quality.tune", *names, *given])
    with ended_by_message():
        collections = read_sets(folders, limit_queries, skip_unreadable=False)
        start, read, replays = asyncio.run(_query(collections, profile, address))
        tuned = _tune(start, read, replays, folds, command)
        where = run_folder("tune", results)
        path = evidence.write(where, tuned)
        if out is not None:
            out.write_bytes(path.read_bytes())
    console.print(Markdown((where / evidence.EVIDENCE).read_text(encoding="utf-8")))
    console.print(f"written to {where}", markup=False)


def _definition(name: str, profiles: Sequence[tuning.Profile]) -> Definition:
    """The definition of a profile that can be tuned.

    Raises:
        ValueError: There is none of that name, or it cannot be tuned.
    """
    by_name = {each.name: each.definition for each in profiles}
    profile = accepted(name, by_name[name]) if name in by_name else None
    if profile is None:
        raise ValueError(f"no profile is called {name!r}; known: {', '.join(sorted(by_name))}")
    check_tunable(profile)
    return by_name[name]


async def _query(
    collections: Sequence[Collection], name: str, address: str | None
) -> tuple[Definition, Profile, list[Replay]]:
    replays: list[Replay] = []
    async with running(address) as target, connected(target, 1) as connections:
        profiles = await connections.profiles()
        start = _definition(name, profiles)
        profile = to_form(start).to_profile(name)
        for collection in collections:
            with progress_bars(console) as bars:
                stored = await Session(connections, profiles, bars).store(collection)
                found = await query_set(stored, collection, profile, bars)
            replays += map(Replay, found)
    return start, profile, replays


def _tune(
    start: Definition,
    profile: Profile,
    replays: Sequence[Replay],
    folds: int,
    command: str,
) -> evidence.Tuned:
    """Checks the replay, searches and validates; the service is no longer needed."""
    agreement = check_replay(replays, profile)
    console.print(f"replay and service under {profile.name!r}: {agreement}", markup=False)
    board = Board(replays)
    dealt = deal(board, folds)
    fields = coordinates(start, profile)
    with progress_bars(console) as bars:
        bar = bars.add_task("searching", total=len(fields) * MAX_SWEEPS * (folds + 1))
        search = CoordinateSearch(profile.name, start, fields, board, lambda: bars.advance(bar))
        searched = search.run(board.everything)
        validated = cross_validate(board, dealt, search)
    return evidence.Tuned(
        name=profile.name,
        start=start,
        board=board,
        before=board.scores(profile),
        searched=searched,
        validated=validated,
        coordinates=fields,
        agreement=agreement,
        command=command,
        about=environment.describe(),
    )


if __name__ == "__main__":
    main()
