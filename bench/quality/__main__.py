"""The command `python -m bench.quality`: measures answers, and compares them with stored scores."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from rich.markdown import Markdown

from bench.harness import options
from bench.harness.collection import Collection, left_without_facts
from bench.harness.connections import connected
from bench.harness.processes import ServiceProcesses
from bench.harness.results import Record, run_folder
from bench.harness.service import running
from bench.quality import memories, slices
from bench.quality.mishearing import NameChange, with_changed_names
from bench.quality.run_config import (
    RunConfig,
    choose_configs,
    format_config,
    gate_configs,
    parse_config,
)
from bench.quality.scoring import gate
from bench.quality.scoring.evaluate import Answers, outcome
from bench.quality.scoring.gate import Row, StoredError
from bench.quality.scoring.summary import headlines, overview, save_plot, summary
from bench.quality.session import measure, read_sets
from bench.reports import environment
from bench.reports.recording import Taking, console, ended_by_message
from trivium.tuning import Profile

FAILED = 1

Choose = Callable[[Sequence[Profile]], Sequence[RunConfig]]
"""Chooses the configurations by the profiles of the service, the baseline first."""


@click.command(context_settings=options.HELP)
@options.folders
@click.option("--profile", "profiles", multiple=True, metavar="NAME", help="Measure this profile.")
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="'NAME=PROFILE FIELD=VALUE ...'",
    help="Measure a profile with changes, and call it NAME.",
)
@click.option(
    "--without",
    "without_legs",
    multiple=True,
    metavar="LEG",
    help="Measure the baseline without it.",
)
@click.option(
    "--baseline", default="", metavar="NAME", help="The run that the others are compared with."
)
@options.out
@options.address
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
@options.count("--limit-queries", None, "At most this many of each set.")
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
    configs: Sequence[str],
    without_legs: Sequence[str],
    baseline: str,
    out: Path,
    address: str | None,
    name_change: str | None,
    seed: int,
    without_facts: bool,
    limit_queries: int | None,
    skip_unreadable: bool,
    gate_file: Path | None,
    store_file: Path | None,
) -> None:
    """Measure how good the answers to the questions of each FOLDER are.

    A FOLDER has corpus.jsonl, queries.jsonl and qrels.tsv, as BEIR has them; without one, the
    shipped sets are measured. Without a profile or a configuration, each leg of the default
    profile is measured alone and left out; for a gate, only alone. docs/quality.md is the guide.
    """
    gating = bool(gate_file or store_file)
    with ended_by_message(OSError, ValueError):
        given = [*(RunConfig(name, name) for name in profiles), *map(parse_config, configs)]

        def chosen(of: Sequence[Profile]) -> Sequence[RunConfig]:
            fallback = gate_configs(of) if gating and not without_legs else ()
            return choose_configs(of, given or fallback, without_legs, baseline)

        collections = read_sets(
            folders or (*slices.FOLDERS, *memories.FOLDERS), limit_queries, skip_unreadable
        )
        if name_change is not None:
            changed = NameChange(name_change)
            collections = [with_changed_names(each, changed, seed) for each in collections]
        if without_facts:
            collections = [left_without_facts(each) for each in collections]
        before = gate.read_rows(gate_file) if gate_file else []
        rows = asyncio.run(_measure(collections, chosen, address, out))
        if store_file is not None:
            _store(store_file, rows)
        compared = gate.compare(before, rows)
    if gate_file:
        console.print(Markdown(gate.verdict(compared)))
    ctx.exit(FAILED if any(each.fell for each in compared) else 0)


async def _measure(
    collections: Sequence[Collection], choose: Choose, address: str | None, out: Path
) -> list[Row]:
    """Measures the sets in order, and writes each to disk when it is complete."""
    rows: list[Row] = []
    found: list[Record] = []
    async with running(address) as target, connected(target.address, 1) as connections:
        processes = ServiceProcesses(target.pid) if target.pid else None
        profiles = await connections.profiles()
        configs = choose(profiles)
        for collection in collections:
            answers = await measure(connections, profiles, collection, configs, processes)
            of_set = [row for each in answers for row in gate.rows_of(collection.name, each)]
            found += _write(out, collection, answers, of_set)
            rows += of_set
    if len(collections) > 1:
        console.print(Markdown(overview(found)))
    return rows


def _write(
    out: Path, collection: Collection, answers: Sequence[Answers], rows: Sequence[Row]
) -> list[Record]:
    """Writes results, scores and summary of a set, none of which holds a text of it."""
    folder = run_folder(f"quality-{collection.name}", out)
    take, baseline = Taking(folder, environment.about(collection)), answers[0]
    for each in answers:
        command = _command(collection, (each.config, baseline.config))
        take(outcome(each, baseline, command))
    gate.write_rows(folder / gate.FILE_NAME, rows)
    (folder / "summary.md").write_text(summary(take.records), encoding="utf-8")
    save_plot(take.records, folder / "means.png")
    console.print(Markdown(headlines(take.records)))
    console.print(f"written to {folder}", markup=False)
    return take.records


def _command(collection: Collection, configs: Sequence[RunConfig]) -> str:
    """The command that measures a configuration and its baseline again."""
    given = [
        part for each in dict.fromkeys(map(format_config, configs)) for part in ("--config", each)
    ]
    if configs[0] != configs[-1]:
        given += ["--baseline", configs[-1].name]
    names = collection.given_as or (collection.name,)
    return shlex.join(["python", "-m", "bench.quality", *names, *given])


def _store(path: Path, rows: Sequence[Row]) -> None:
    if faulty := [row for row in rows if row.fault]:
        raise StoredError(
            f"{len(faulty)} answers are not whole, such as that to {faulty[0].query!r} "
            f"({faulty[0].fault}): nothing is stored"
        )
    gate.write_rows(path, rows)
    console.print(f"stored in {path}", markup=False)


if __name__ == "__main__":
    main()
