"""What a reranker adds within a time budget: `python -m bench.quality.variants.budgets`.

The questions are asked with the profile `default`, and with `precise` under each budget. The
service needs a reranker: `TRIVIUM_RERANKER__MODEL=minilm-l12`.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
from rich.markdown import Markdown

from bench.harness.collection import Collection, Query
from bench.harness.connections import Connections, connected
from bench.harness.latency import Latency
from bench.harness.load import Advance
from bench.harness.results import Record, run_folder, table
from bench.harness.service import running
from bench.quality.command import (
    console,
    ended_by_message,
    read_sets,
    results_option,
    sets_argument,
)
from bench.quality.pages.folder import write_records
from bench.quality.pages.tables import budgets_table
from bench.quality.scoring.evaluate import TIMEOUT_S, Answers, Scored, ask_once, failed, score
from bench.quality.scoring.outcome import outcome
from bench.quality.session import Session
from bench.quality.ways import Way, legs_of
from bench.reports import environment
from bench.reports.progress import progress_bars
from trivium.errors import TriviumError
from trivium.tuning import Profile
from trivium.values import Retrieval, Stage

WAYS = (
    (Way("default"), TIMEOUT_S),
    *((Way(f"{budget_ms} ms", "precise"), budget_ms / 1000) for budget_ms in (100, 250, 1000)),
)
"""How to ask, the baseline first, with the time budget in seconds."""

NO_RERANKER = "the service has no reranker"

Asked = tuple[Scored, Retrieval | None]
"""A scored answer, and the answer itself if there was one."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@sets_argument
@results_option
@click.option("--limit-queries", type=click.IntRange(min=1), help="At most so many of each set.")
def main(folders: Sequence[Path], out: Path, limit_queries: int | None) -> None:
    """Measure reranking within budgets on each FOLDER."""
    with ended_by_message():
        sets = read_sets(folders, limit_queries, skip_unreadable=False)
        for collection, records in asyncio.run(_measure(sets)):
            where = run_folder(f"budgets-{collection.name}", out)
            write_records(where, records)
            console.print(Markdown(budgets_table(records)))
            console.print(f"written to {where}", markup=False)


async def _measure(sets: Sequence[Collection]) -> list[tuple[Collection, list[Record]]]:
    async with running(None) as target, connected(target, 1) as connections:
        profiles = await connections.profiles()
        with progress_bars(console) as bars:
            session = Session(connections, profiles, bars)
            measured = []
            for collection in sets:
                memory = await session.store(collection)
                await _until_reranked(memory, collection.judged[0])
                total = len(WAYS) * len(collection.judged)
                bar = bars.add_task(f"querying {collection.name}", total=total)
                found = await _ask_all(memory, collection.judged, partial(bars.advance, bar))
                measured.append((collection, _records(collection, found, profiles)))
    return measured


async def _ask_all(
    memory: Connections, queries: Sequence[Query], advance: Advance
) -> list[list[Asked]]:
    """Asks question by question, so that all ways meet the same machine; returns them by way."""
    found: list[list[Asked]] = [[] for _ in WAYS]
    for query in queries:
        for (way, budget_s), of_way in zip(WAYS, found, strict=True):
            of_way.append(await _ask(memory, query, way, budget_s))
            advance()
    return found


def _records(
    collection: Collection, found: Sequence[Sequence[Asked]], profiles: Sequence[Profile]
) -> list[Record]:
    answers = [
        Answers(way, legs_of(way, profiles), [scored for scored, _ in of_way])
        for (way, _), of_way in zip(WAYS, found, strict=True)
    ]
    command = shlex.join(["python", "-m", "bench.quality.variants.budgets", collection.name])
    about = environment.about(collection)
    return [
        with_reranking(
            outcome(each, answers[0], command=command).as_record(about),
            [retrieval for _, retrieval in of_way if retrieval is not None],
        )
        for each, of_way in zip(answers, found, strict=True)
    ]


async def _until_reranked(memory: Connections, query: Query) -> None:
    """Asks until the reranker is loaded.

    Raises:
        ValueError: The service has none.
    """
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            found = await memory.ask(query, timeout=TIMEOUT_S, profile="precise")
            if found.rerank is not None and found.rerank.stage is Stage.RERANKED:
                return
            if found.rerank is not None and found.rerank.reason == NO_RERANKER:
                raise ValueError(f"{NO_RERANKER}: set TRIVIUM_RERANKER__MODEL=minilm-l12")
            await asyncio.sleep(0.2)


async def _ask(memory: Connections, query: Query, way: Way, budget_s: float) -> Asked:
    try:
        retrieval = await ask_once(memory, query, way, timeout=budget_s)
    except TriviumError as error:
        return failed(query, error), None
    return score(query, retrieval), retrieval


def with_reranking(record: Record, retrievals: Sequence[Retrieval]) -> Record:
    """Adds how often and how much was reranked, and the server's time."""
    reports = [each.rerank for each in retrievals if each.rerank is not None]
    done = [each for each in reports if each.stage is Stage.RERANKED]
    totals = [each.statistics.total.total_seconds() for each in retrievals]
    measured = {
        **table(record, "measured"),
        "coarse_share": 1 - len(done) / len(reports) if reports else None,
        "pairs": sum(each.hit_count for each in done) / len(reports) if reports else None,
        "server": dict(Latency.of(totals).as_record()) if totals else None,
    }
    return {**record, "measured": measured}


if __name__ == "__main__":
    main()
