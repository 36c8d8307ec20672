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
from functools import partial
from pathlib import Path

import click
from rich.markdown import Markdown
from rich.progress import Progress

from bench.harness.results import RESULTS, run_folder
from bench.quality import memories, slices
from bench.quality.command import console, ended_by_message, read_sets
from bench.quality.tune import evidence
from bench.quality.tune.coordinates import alone
from bench.quality.tune.folds import cross_validate, deal
from bench.quality.tune.gathering import Start, ask_sets
from bench.quality.tune.leg_queries import Asked, NotWholeError
from bench.quality.tune.objective import Board, Objective
from bench.quality.tune.replay import ProofError, Replay, prove
from bench.quality.tune.search import MAX_SWEEPS, CoordinateSearch
from bench.quality.ways import DEFAULT_PROFILE
from bench.reports import environment
from bench.reports.progress import progress_bars


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

    A FOLDER is a set as `python -m bench.quality` takes it; without one, the sets that ship are
    asked. Each set counts the same. What is found is scored on questions that the search has not
    seen. docs/quality.md is the guide.
    """
    folders = folders or (*slices.FOLDERS, *memories.FOLDERS)
    names = [folder.resolve().name for folder in folders]
    command = _command(names, profile, folds, limit_queries, seed)
    with ended_by_message(NotWholeError, ProofError):
        collections = read_sets(folders, limit_queries, skip_unreadable)
        start, asked = asyncio.run(ask_sets(collections, profile, address))
        tuned = _tune(start, asked, folds, seed, command)
        where = run_folder("tune", results)
        path = evidence.write(where, tuned)
        if out is not None:
            out.write_bytes(path.read_bytes())
    console.print(Markdown((where / evidence.EVIDENCE).read_text(encoding="utf-8")))
    console.print(f"written to {where}", markup=False)


def _command(
    sets: Sequence[str], profile: str, folds: int, limit_queries: int | None, seed: int
) -> str:
    """The command that repeats a run; sets are named by their folders."""
    given = ["--profile", profile, "--folds", str(folds), "--seed", str(seed)]
    if limit_queries is not None:
        given += ["--limit-queries", str(limit_queries)]
    return shlex.join(["python", "-m", "bench.quality.tune", *sets, *given])


# ---------------------------------------------------------------- searching


def _tune(
    start: Start, asked: Sequence[Asked], folds: int, seed: int, command: str
) -> evidence.Tuned:
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
    return evidence.Tuned(
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
        about=environment.describe(),
    )


def _search(start: Start, bars: Progress, name: str) -> CoordinateSearch:
    bar = bars.add_task(f"searching: {name}", total=len(start.tried) * MAX_SWEEPS)
    return CoordinateSearch(
        start.profile.name, start.definition, start.tried, lambda: bars.advance(bar)
    )


if __name__ == "__main__":
    main()
