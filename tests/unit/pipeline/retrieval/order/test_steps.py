"""The order of an answer is that of its ledgers, over what legs found in every shipped set."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from functools import cache
from typing import Any

import pytest

from bench.quality.heads import HEADS
from serving.config.profiles import ProfileBook
from serving.domain.items.records import Item, ItemId, Segment, segment_id, time_of
from serving.domain.questions.query import Query
from serving.domain.ranking.fusion import Fused
from serving.domain.ranking.ledger import Ledger, LegTerm, worth
from serving.domain.ranking.priors import Decay, Importance, ImportanceStyle
from serving.domain.ranking.profile import Diversity, Profile, Rerank
from serving.pipeline.retrieval.order import STEPS
from serving.pipeline.retrieval.order.currency import Currency
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.order.ordering import Ordering
from serving.pipeline.retrieval.order.scoring import RERANK
from serving.ports.vector_index import Adjacency, Turn
from tests.support.builders import NOON, query, scope, segment

Head = tuple[Query, dict[ItemId, Item], list[tuple[ItemId, dict[str, list[float]]]]]

SPARE = 5
"""How many of the last candidates of a head no leg finds: they stand next to others."""

BOOK = ProfileBook.load()
EVERYTHING = replace(
    BOOK["default"],
    name="everything",
    legs=tuple(replace(leg, reserved=leg.name == "related") for leg in BOOK["default"].legs),
    importance=Importance(style=ImportanceStyle.MULTIPLY),
    decay=Decay(),
    rerank=Rerank(head=12),
    diversity=Diversity(),
)
PROFILES = [*(BOOK[name] for name in BOOK), EVERYTHING]
OFF: dict[str, dict[str, Any]] = {
    "Fold": {"fold_repeats": False},
    "Adjacent": {"adjacent": 0},
    "Importance": {"importance": Importance()},
    "Decay": {"decay": None},
    "Rerank": {"rerank": None},
    "Currency": {"current_first": False},
    "Diversify": {"diversity": None},
}
"""What a profile without the step has."""


@cache
def heads() -> list[Head]:
    return [_head(json.loads(line)) for line in HEADS.read_text(encoding="utf-8").splitlines()]


def _head(stored: dict[str, Any]) -> Head:
    as_of = datetime.fromisoformat(stored["as_of"]) if stored["as_of"] else NOON
    rows: dict[ItemId, Item] = {
        segment_id(each["id"]): segment(
            each["id"],
            each["text"],
            speaker=each["speaker"],
            importance=place % 4 / 3,
            event_time=datetime.fromisoformat(each["said"]) if each["said"] else NOON,
            sensitive=place % 11 == 10,
        )
        for place, each in enumerate(stored["found"])
    }
    found = [(segment_id(each["id"]), each["terms"]) for each in stored["found"][:-SPARE]]
    return query(stored["question"], scope=scope(as_of=as_of)), rows, found


def ordered(profile: Profile, head: Head) -> Ordering:
    """The order of what the legs of the head found, under a profile."""
    asked, rows, found = head
    terms = {
        item: tuple(
            LegTerm(leg, rank, profile.weights.get(leg, 1.0), score)
            for leg, (rank, score) in of_item.items()
        )
        for item, of_item in found
    }
    fused = [
        Fused(item, math.fsum(worth(t, profile.fusion, profile.rank_constant) for t in of), of)
        for item, of in terms.items()
    ]
    fused.sort(key=lambda one: (-one.score, one.item))
    ordering = Ordering(profile, asked, fused, adjacent=_adjacent(rows))
    while batch := ordering.next_to_load():
        ordering.add_rows(batch, rows)
    return reranked(ordering)


def _adjacent(rows: dict[ItemId, Item]) -> dict[ItemId, Adjacency]:
    """Turns next to each other: every third row, and some that no leg has found."""
    turns = [Turn(item, "?" in row.text) for item, row in rows.items() if isinstance(row, Segment)]
    return {
        turn.item: Adjacency(
            turn.asks, turns[(place - 3) % len(turns)], turns[(place + 3) % len(turns)]
        )
        for place, turn in enumerate(turns)
    }


def reranked(ordering: Ordering) -> Ordering:
    if RERANK in ordering.steps:
        ordering.add_logits({hit.item.item: len(hit.text) % 9 - 4 for hit in ordering.head()})
    return ordering


def recomputed(ledger: Ledger) -> float:
    """The score by the formula of the protos."""
    score = math.fsum(worth(t, ledger.method, ledger.rank_constant) for t in ledger.leg_terms)
    score += math.fsum(term.share * term.score for term in ledger.adjacent)
    score *= ledger.importance.multiplier if ledger.importance else 1
    score *= ledger.decay.multiplier if ledger.decay else 1
    score += ledger.importance.boost if ledger.importance else 0
    if ledger.rerank:
        of_reranker = 1 / (1 + math.exp(-ledger.rerank.logit))
        weight = ledger.rerank.weight
        score = (1 - weight) * score / ledger.rerank.scale + weight * of_reranker
    return score * math.prod(term.factor for term in ledger.currency)


def by_ledger(hits: Sequence[Hit], diversified: bool) -> list[Hit]:
    """The hits in the order of the values of their ledgers."""

    def key(hit: Hit) -> tuple[object, ...]:
        if diversified:
            value = hit.ledger.diversity.value if hit.ledger.diversity else -math.inf
            return (-value,)
        return (hit.stage is Stage.COARSE, -recomputed(hit.ledger), time_of(hit.item), hit.item.id)

    return sorted(hits, key=key)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_order_of_hits_equals_that_of_ledgers(profile: Profile) -> None:
    for head in heads():
        hits = ordered(profile, head).hits()

        assert list(hits) == by_ledger(hits, profile.diversity is not None)
        for hit in hits:
            assert hit.score == pytest.approx(recomputed(hit.ledger), abs=1e-9)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_order_without_a_step_equals_a_profile_without(profile: Profile) -> None:
    unreserved = tuple(replace(leg, reserved=0) for leg in profile.legs)
    off = OFF | {"Reserve": {"legs": unreserved}}
    for head in heads():
        ordering = ordered(profile, head)
        for step in ordering.steps[:-1]:
            without = ordered(replace(profile, **off[type(step).__name__]), head)

            assert reranked(ordering.without(step)).hits() == without.hits()


def test_step_sets_its_own_term_of_the_ledger() -> None:
    changed: dict[str, set[str]] = {type(step).__name__: set() for step in STEPS}
    for head in heads():
        ordering = ordered(EVERYTHING, head)
        ordering.hits()
        for step, before, after in zip(
            ordering.steps, ordering._orders, ordering._orders[1:], strict=False
        ):
            was = {hit.item.item: hit.ledger for hit in before}
            changed[type(step).__name__] |= {
                each.name
                for hit in after
                for each in fields(Ledger)
                if getattr(hit.ledger, each.name) != getattr(was[hit.item.item], each.name)
            }

    assert {name: terms for name, terms in changed.items() if terms} == {
        "Adjacent": {"adjacent"},
        "Currency": {"currency"},
        "Decay": {"decay"},
        "Diversify": {"diversity"},
        "Importance": {"importance"},
        "Rerank": {"rerank"},
        "Reserve": {"reserved_by"},
    }


@pytest.mark.parametrize("limit", [1, 5, 30])
def test_currency_does_not_depend_on_the_limit(limit: int) -> None:
    profile = BOOK["default"]
    moved = 0
    for head in heads():
        ten, others = ordered(profile, head).hits(), ordered(replace(profile, limit=limit), head)
        moved += ordered(profile, head).without(_currency()).hits() != ten

        assert others.hits()[:10] == ten[:limit]
        assert list(others.hits()) == by_ledger(others.hits(), diversified=False)
    assert moved >= 10


def _currency() -> Currency:
    return next(step for step in STEPS if isinstance(step, Currency))
