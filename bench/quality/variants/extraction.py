"""The command `python -m bench.quality.variants.extraction`: facts read out of turns.

The same questions are asked where there are no facts, where the service has read facts out of the
turns by its rules, and where there are those of the set. Each of these has a service of its own,
since what reads turns is a setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from bench.harness.collection import Collection, left_without_facts
from bench.harness.connections import connected
from bench.harness.service import fresh_data, started
from bench.quality.command import console, results_option, sets_argument
from bench.quality.scoring.evaluate import Answers
from bench.quality.session import Session
from bench.quality.variants.command import measure_each
from bench.quality.ways import Way
from bench.reports.progress import progress_bars

NONE, BY_RULES, GIVEN = Way("none"), Way("by rules"), Way("those of the set")
EXTRACTOR = "TRIVIUM_EXTRACTION__BY"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@sets_argument
@results_option
@click.option("--limit-queries", type=click.IntRange(min=2), help="At most so many of each set.")
def main(folders: Sequence[Path], out: Path, limit_queries: int | None) -> None:
    """Measure the questions of each FOLDER without facts, with extracted ones, and with its own."""
    measure_each(folders, out, "extraction", _measure, limit_queries)


async def _measure(collection: Collection) -> list[Answers]:
    turns = left_without_facts(collection)
    return [
        await _answers(turns, NONE, "off"),
        await _answers(turns, BY_RULES, "rules"),
        await _answers(collection, GIVEN, "off"),
    ]


async def _answers(collection: Collection, way: Way, extractor: str) -> Answers:
    console.print(f"facts: {way.name}", markup=False)
    with fresh_data() as data_dir:
        async with (
            started(data_dir, {EXTRACTOR: extractor}) as target,
            connected(target.address, 1) as connections,
        ):
            profiles = await connections.profiles()
            with progress_bars(console) as bars:
                session = Session(connections, profiles, bars)
                measured = await session.measure(collection, [way], explain=False)
    return measured.baseline


if __name__ == "__main__":
    main()
