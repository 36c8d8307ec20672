"""The command `python -m bench.quality.variants.doubled`: two questions in one text.

No public set has such texts, so pairs are made: two questions about one conversation, joined into
one text, which the segments that answer either question answer. A pair is sent as one text that is
embedded whole, as one text that is split into its questions, and as two requests whose answers are
interleaved, which is the upper limit of what splitting could gain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

import click

from bench.harness.collection import Collection, Query
from bench.harness.connections import Connections, connected
from bench.harness.load import faults_of
from bench.harness.service import running
from bench.quality.command import console, results_option, sets_argument
from bench.quality.scoring.evaluate import Answers, Scored, ask_once, score
from bench.quality.session import Session
from bench.quality.variants.command import measure_each
from bench.quality.variants.reordered import score_hits
from bench.quality.ways import Way, legs_of
from bench.reports.progress import progress_bars
from trivium.values import Hit

WHOLE = Way("as one text", changes={"split_questions": False})
SPLIT = Way("by its questions", changes={"split_questions": True})
APART = Way("one by one")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two questions to one conversation."""

    first: Query
    second: Query

    @property
    def whole(self) -> Query:
        """Both as one question, by the clock of the first."""
        return Query(
            id=f"{self.first.id}+{self.second.id}",
            tenant=self.first.tenant,
            text=f"{self.first.text} {self.second.text}",
            as_of=self.first.as_of,
            relevant=self.first.relevant | self.second.relevant,
        )


def pairs(queries: Sequence[Query]) -> Iterator[Pair]:
    """Questions that follow each other in one conversation; the last of an odd number is alone."""
    by_tenant: defaultdict[str, list[Query]] = defaultdict(list)
    for query in queries:
        by_tenant[query.tenant].append(query)
    for of_tenant in by_tenant.values():
        yield from map(Pair, of_tenant[::2], of_tenant[1::2])


def in_turn(first: Sequence[Hit], second: Sequence[Hit], limit: int) -> list[Hit]:
    """Interleaves two lists, each hit once."""
    hits = (hit for hit in chain.from_iterable(zip_longest(first, second)) if hit is not None)
    return list({hit.id: hit for hit in hits}.values())[:limit]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@sets_argument
@results_option
@click.option("--address", metavar="HOST:PORT", help="A running service, instead of starting one.")
@click.option("--limit-queries", type=click.IntRange(min=2), help="At most so many of each set.")
def main(
    folders: Sequence[Path], out: Path, address: str | None, limit_queries: int | None
) -> None:
    """Measure pairs of questions of each FOLDER, as one text and one by one."""
    measure_each(folders, out, "doubled", lambda each: _measure(each, address), limit_queries)


async def _measure(collection: Collection, address: str | None) -> list[Answers]:
    async with running(address) as target, connected(target, 1) as connections:
        profiles = await connections.profiles()
        made = list(pairs(collection.judged))
        with progress_bars(console) as bars:
            memory = await Session(connections, profiles, bars).store(collection)
            bar = bars.add_task(f"querying {collection.name}", total=len(made))
            ways = (WHOLE, SPLIT, APART)
            scored: list[list[Scored]] = [[] for _ in ways]
            for pair in made:
                for way, of_way in zip(ways, scored, strict=True):
                    of_way.append(await _ask(memory, pair, way))
                bars.advance(bar)
    return [
        Answers(way, legs_of(way, profiles), of_way)
        for way, of_way in zip(ways, scored, strict=True)
    ]


async def _ask(connections: Connections, pair: Pair, way: Way) -> Scored:
    if way is APART:
        return await _ask_apart(connections, pair)
    return score(pair.whole, await ask_once(connections, pair.whole, way))


async def _ask_apart(connections: Connections, pair: Pair) -> Scored:
    first, second = [
        await ask_once(connections, query, APART) for query in (pair.first, pair.second)
    ]
    hits = in_turn(first.hits, second.hits, limit=max(len(first.hits), len(second.hits)))
    return score_hits(pair.whole, hits, [*faults_of(first), *faults_of(second)])


if __name__ == "__main__":
    main()
