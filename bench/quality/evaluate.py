"""Asks the judged questions by each leg alone, by two and by all, and scores the answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.collection import Collection, Query
from bench.connections import LIMIT, Connections
from bench.ingest import LEGS, only
from bench.load import Advance, closed_loop, leg_faults
from bench.quality.intervals import mean_interval
from bench.quality.metrics import ndcg_at, recall_at, reciprocal_rank_at
from bench.results import Json, Result
from trivium.values import Fact, Hit, Retrieval

IN_FLIGHT = 8

WAYS: Mapping[str, Sequence[str]] = {
    **{leg: (leg,) for leg in LEGS},
    "words + meaning": ("lexical", "dense"),
    "all": LEGS,
}
"""Which legs are asked, by name of the way."""

Metric = Callable[[Sequence[str], frozenset[str]], float]

METRICS: Mapping[str, Metric] = {
    "recall@5": lambda ranked, relevant: recall_at(5, ranked, relevant),
    "recall@10": lambda ranked, relevant: recall_at(10, ranked, relevant),
    "ndcg@10": lambda ranked, relevant: ndcg_at(10, ranked, relevant),
    "mrr@10": lambda ranked, relevant: reciprocal_rank_at(10, ranked, relevant),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A judged question and the segments found, best first."""

    query: Query
    ranked: Sequence[str]


def ranked_segments(hits: Iterable[Hit], depth: int = LIMIT) -> list[str]:
    """The ids of segments in the order of hits, each fact as its evidence; at most `depth`."""
    ids = (
        id_
        for hit in hits
        for id_ in (hit.item.evidence if isinstance(hit.item, Fact) else (hit.id,))
    )
    return list(dict.fromkeys(ids))[:depth]


def score(answers: Sequence[Answer]) -> dict[str, Json]:
    """Each metric over the answers, with its interval."""
    return {
        name: mean_interval(
            [metric(each.ranked, each.query.relevant) for each in answers]
        ).as_record()
        for name, metric in METRICS.items()
    }


def score_by_category(answers: Sequence[Answer]) -> dict[str, Json]:
    """Recall@10 by the questions' category."""
    by_category: defaultdict[str, list[float]] = defaultdict(list)
    for answer in answers:
        recall = METRICS["recall@10"](answer.ranked, answer.query.relevant)
        by_category[answer.query.category].append(recall)
    return {
        category: {"n": len(recalls), "recall@10": round(sum(recalls) / len(recalls), 4)}
        for category, recalls in sorted(by_category.items())
    }


async def measure_quality(
    connections: Connections, collection: Collection, advance: Advance
) -> list[Result]:
    """Measures every way; what was written must be projected by now."""
    return [
        await _measure(connections, collection.judged, way, legs, advance)
        for way, legs in WAYS.items()
    ]


async def _measure(
    connections: Connections,
    queries: Sequence[Query],
    way: str,
    legs: Sequence[str],
    advance: Advance,
) -> Result:
    overrides = only(*legs)
    answers: list[Answer] = []

    async def ask(query: Query) -> Retrieval:
        retrieval = await connections.ask(query, overrides)
        answers.append(Answer(query, ranked_segments(retrieval.hits)))
        return retrieval

    run = await closed_loop(ask, queries, IN_FLIGHT, advance)
    return Result(
        scenario="quality",
        parameters={"way": way, "legs": list(legs), "limit": LIMIT},
        n=len(answers),
        throughput_per_s=run.throughput_per_s,
        latency=run.latency,
        errors=run.errors,
        measured={
            **(score(answers) if answers else {}),
            "by_category": score_by_category(answers),
            "leg_faults": leg_faults(retrieval for _, retrieval in run.answered),
        },
    )
