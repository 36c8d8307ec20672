"""The command `python -m bench.quality.variants.score_shares`: how sure a leg is, beside the rank.

A reciprocal rank forgets whether a leg found something good or the best of something poor. Here the
term of each leg is multiplied by `(score / best score) ** alpha`, the best score being the highest
that the leg gave to the question, and the answers of the service are ordered anew. The terms of
signals stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import click

from bench.harness.collection import Collection
from bench.harness.connections import LIMIT, connected
from bench.harness.load import faults_of
from bench.harness.service import running
from bench.quality.command import console, results_option, sets_argument
from bench.quality.scoring.evaluate import Answers, Scored, ask_once
from bench.quality.session import Session
from bench.quality.variants.command import measure_each
from bench.quality.variants.reordered import score_hits
from bench.quality.ways import Way, legs_of
from bench.reports.progress import progress_bars
from trivium.values import Hit, LegTerm

DEFAULT = Way("default")
ALPHAS = (0.0, 0.25, 0.5, 1.0)
"""With 0 the order is the service's own."""

ALL_CANDIDATES = 100
"""The largest `limit` of a request; the legs of the default profile find fewer."""


def ordered(hits: Sequence[Hit], legs: Sequence[str], alpha: float) -> list[Hit]:
    """Hits by the sum of their terms, those of `legs` multiplied by their share of the best score.

    Args:
        hits: All candidates of an answer, with ledgers.
        legs: The names of the legs; any other term is a signal's.
        alpha: The exponent, at least 0.
    """

    def score(hit: Hit) -> float:
        terms = () if hit.ledger is None else hit.ledger.leg_terms
        return math.fsum(
            term.term * (_share(term) ** alpha if term.leg in legs else 1.0) for term in terms
        )

    return sorted(hits, key=score, reverse=True)


def _share(term: LegTerm) -> float:
    return term.leg_score / term.max_score if term.max_score > 0 else 1.0


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@sets_argument
@results_option
@click.option("--address", metavar="HOST:PORT", help="A running service, instead of starting one.")
def main(folders: Sequence[Path], out: Path, address: str | None) -> None:
    """Measure score shares on the questions of each FOLDER."""
    measure_each(folders, out, "score_shares", lambda each: _measure(each, address))


async def _measure(collection: Collection, address: str | None) -> list[Answers]:
    async with running(address) as target, connected(target, 1) as connections:
        profiles = await connections.profiles()
        legs = legs_of(DEFAULT, profiles)
        with progress_bars(console) as bars:
            memory = await Session(connections, profiles, bars).store(collection)
            bar = bars.add_task(f"querying {collection.name}", total=len(collection.judged))
            scored: list[list[Scored]] = [[] for _ in ALPHAS]
            for query in collection.judged:
                found = await ask_once(memory, query, DEFAULT, limit=ALL_CANDIDATES, explain=True)
                for alpha, of_alpha in zip(ALPHAS, scored, strict=True):
                    hits = ordered(found.hits, legs, alpha)[:LIMIT]
                    of_alpha.append(score_hits(query, hits, faults_of(found)))
                bars.advance(bar)
    return [
        Answers(Way(f"alpha {alpha:g}"), legs, of_alpha)
        for alpha, of_alpha in zip(ALPHAS, scored, strict=True)
    ]


if __name__ == "__main__":
    main()
