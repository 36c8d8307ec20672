"""The command `python -m bench.quality.tune`: a better profile for one's own questions, with proof.

1. Ask the service what each leg finds for each question, and for its answers.
2. Prove that the order worked out here is the service's.
3. Search on all questions but a fold, fold by fold, and score what was found on the fold.
4. Search on all questions, and write the profile and the evidence.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.markdown import Markdown
from rich.progress import Progress

from bench import environment
from bench.collection import Collection, Query
from bench.connections import Connections, connected
from bench.progress import progress_bars
from bench.quality import slices
from bench.quality.command import EXPECTED, RESULTS, console, read_sets, running
from bench.quality.evaluate import TIMEOUT_S
from bench.quality.session import Session
from bench.quality.tune import written
from bench.quality.tune.asking import Asked, Asker, NotWholeError, to_row
from bench.quality.tune.coordinates import (
    Coordinate,
    Definition,
    alone,
    check_tunable,
    coordinates,
    heard,
)
from bench.quality.tune.folds import cross_validate, deal
from bench.quality.tune.lists import Rows
from bench.quality.tune.objective import Board, Objective
from bench.quality.tune.replay import ProofError, Replay, prove
from bench.quality.tune.search import MAX_SWEEPS, CoordinateSearch
from bench.quality.ways import DEFAULT_PROFILE
from serving.domain.profile import Profile, Yields
from trivium import tuning, values
from trivium.aio import AsyncClient

PAGE = 1000
"""Rows that are read at a time."""

CALLERS = 4
"""Questions asked at a time. What is found does not depend on it, and nothing is timed."""


@dataclass(frozen=True, slots=True)
class Start:
    """The profile that the search starts with, in both forms, and what it may change in it."""

    definition: Definition
    profile: Profile
    tried: Sequence[Coordinate]

    @classmethod
    def of(cls, name: str, profiles: Sequence[tuning.Profile]) -> Start:
        """Reads it from what the service lists.

        Raises:
            ValueError: There is none of that name, or it cannot be tuned.
        """
        by_name = {each.name: each.definition for each in profiles}
        profile = heard(name, by_name[name]) if name in by_name else None
        if profile is None:
            raise ValueError(f"no profile is called {name!r}; known: {', '.join(sorted(by_name))}")
        check_tunable(profile)
        return cls(by_name[name], profile, coordinates(by_name[name], profile))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "folders",
    nargs=-1,
    metavar="[FOLDER]...",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
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
@click.option("--limit-queries", type=click.IntRange(min=1), help="At most so many of each set.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the deal to the folds.")
@click.option(
    "--skip-unreadable", is_flag=True, help="Leave out lines that cannot be read, and go on."
)
def main(
    folders: Sequence[Path],
    profile: str,
    out: Path | None,
    results: Path,
    address: str | None,
    folds: int,
    limit_queries: int | None,
    seed: int,
    skip_unreadable: bool,
) -> None:
    """Search weights, depths and floors of a profile on the judged questions of each FOLDER.

    A FOLDER is a set as `python -m bench.quality` takes it; without one, the slices that ship are
    asked. Each set counts the same. What is found is scored on questions that the search has not
    seen. docs/quality.md is the guide.
    """
    folders = folders or slices.FOLDERS
    names = [folder.resolve().name for folder in folders]
    command = _command(names, profile, folds, limit_queries, seed)
    try:
        collections = read_sets(folders, limit_queries, skip_unreadable)
        start, asked = asyncio.run(_ask(collections, profile, address))
        tuned = _tune(start, asked, folds, seed, command)
        where = results / f"tune-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        path = written.write(where, tuned)
        if out is not None:
            out.write_bytes(path.read_bytes())
    except asyncio.CancelledError:
        raise click.Abort from None
    except (*EXPECTED, NotWholeError, ProofError) as error:
        raise click.ClickException(str(error)) from error
    console.print(Markdown((where / written.EVIDENCE).read_text(encoding="utf-8")))
    console.print(f"written to {where}", markup=False)


def _command(
    sets: Sequence[str], profile: str, folds: int, limit_queries: int | None, seed: int
) -> str:
    """What makes a run again; sets are named by their folders."""
    given = ["--profile", profile, "--folds", str(folds), "--seed", str(seed)]
    if limit_queries is not None:
        given += ["--limit-queries", str(limit_queries)]
    return shlex.join(["python", "-m", "bench.quality.tune", *sets, *given])


# ---------------------------------------------------------------- asking


async def _ask(
    collections: Sequence[Collection], name: str, address: str | None
) -> tuple[Start, list[Asked]]:
    asked: list[Asked] = []
    async with running(address) as target, connected(target, CALLERS) as connections:
        profiles = await connections.profiles()
        start = Start.of(name, profiles)
        for collection in collections:
            with progress_bars(console) as bars:
                session = Session(connections, profiles, bars)
                asked += await _ask_set(await session.store(collection), collection, start, bars)
    return start, asked


async def _ask_set(
    connections: Connections, collection: Collection, start: Start, bars: Progress
) -> list[Asked]:
    async def ask(query: Query, changes: Mapping[str, Any], limit: int) -> values.Retrieval:
        return await connections.ask(
            query,
            timeout=TIMEOUT_S,
            profile=start.profile.name,
            changes=changes,
            limit=limit,
            explain=True,
        )

    asker = Asker(ask, start.definition, start.profile, start.tried)
    tenants = {query.tenant for query in collection.judged}
    rows = {tenant: await _rows(connections.client(tenant), start.profile) for tenant in tenants}
    bar = bars.add_task(f"asking {collection.name}", total=len(collection.judged))
    waiting = iter(list(enumerate(collection.judged)))
    asked: dict[int, Asked] = {}

    async def caller() -> None:
        for place, query in waiting:
            asked[place] = await asker.asked(collection.name, query, rows[query.tenant])
            bars.advance(bar)

    try:
        async with asyncio.TaskGroup() as callers:
            for _ in range(CALLERS):
                callers.create_task(caller())
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [asked[place] for place in sorted(asked)]


async def _rows(client: AsyncClient, profile: Profile) -> Rows:
    """All that a tenant stores and that can be a hit."""
    stored = [to_row(each) async for each in client.list_segments(page_size=PAGE)]
    if any(leg.yields is Yields.FACTS for leg in profile.legs):
        stored += [to_row(each) async for each in client.list_facts(page_size=PAGE)]
    return {row.item: row for row in stored}


# ---------------------------------------------------------------- searching


def _tune(
    start: Start, asked: Sequence[Asked], folds: int, seed: int, command: str
) -> written.Tuned:
    """Proves, validates and searches; the service is no longer needed."""
    proof = prove(asked, start.profile)
    console.print(f"under {start.profile.name!r} as it stands {proof}", markup=False)
    board = Board([Replay(each.found) for each in asked])
    dealt = deal(board, folds, seed)
    single_legs = [
        alone(start.profile.name, start.definition, leg.name)
        for leg in start.profile.legs
        if leg.weight and not leg.leans_on
    ]
    objective = Objective(board, board.everything, single_legs)
    with progress_bars(console) as bars:
        search_of = partial(_search, start, bars)
        searched = search_of("all").run(objective)
        validated = cross_validate(
            board, dealt, single_legs, lambda fold: search_of(f"fold {fold + 1}")
        )
    return written.Tuned(
        name=start.profile.name,
        start=start.definition,
        board=board,
        objective=objective,
        before=board.scores(start.profile),
        after=board.scores(searched.profile),
        searched=searched,
        validated=validated,
        coordinates=start.tried,
        proof=proof,
        command=command,
        about={"at": f"{datetime.now(UTC):%Y-%m-%d %H:%M UTC}", **environment.describe()},
    )


def _search(start: Start, bars: Progress, name: str) -> CoordinateSearch:
    bar = bars.add_task(f"searching: {name}", total=len(start.tried) * MAX_SWEEPS)
    return CoordinateSearch(
        start.profile.name, start.definition, start.tried, lambda: bars.advance(bar)
    )


if __name__ == "__main__":
    main()
