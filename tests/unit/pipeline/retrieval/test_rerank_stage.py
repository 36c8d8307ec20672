from __future__ import annotations

import math
from dataclasses import replace

import pytest

from serving.domain.breaker import FAILURES
from serving.domain.budget import Deadline
from serving.domain.errors import NotReadyError, OverloadedError, TooSlowError
from serving.domain.items.records import Segment
from serving.domain.ranking.ledger import FusionMethod
from serving.domain.ranking.profile import LegSpec, Profile, Rerank
from serving.pipeline.retrieval.ordering import Stage
from serving.ports.reranking import Reranker
from tests.fakes.pipeline import BrokenReranker, FixedLeg, FixedReranker, HangingReranker
from tests.support.builders import query, segment
from tests.unit.pipeline.retrieval.retrieving import hit_ids, retriever, soon, store_of

TWO_STAGE = Profile(
    name="two_stage",
    legs=(LegSpec(name="dense", depth=100),),
    fusion=FusionMethod.SCORE,
    rerank=Rerank(head=3, weight=0.7),
    fold_repeats=False,
)
LOGITS = {"one": -2.0, "two": 0.5, "three": 3.0, "four": 9.0}


def said() -> list[Segment]:
    return [segment(name, text) for name, text in zip("abcd", LOGITS, strict=True)]


async def test_reranked_head_precedes_the_coarse_rest() -> None:
    store = await store_of(*said())
    reranker = FixedReranker(LOGITS)

    answer = await retriever(store, {"dense": FixedLeg("a b c d")}, reranker=reranker).retrieve(
        query("?"), TWO_STAGE, soon()
    )

    assert hit_ids(answer) == ["c", "b", "a", "d"]
    assert [hit.stage for hit in answer.hits] == [*[Stage.RERANKED] * 3, Stage.COARSE]
    assert len(reranker.asked) == 3


async def test_a_cosine_is_mixed_as_it_is() -> None:
    store = await store_of(*said())

    answer = await retriever(
        store, {"dense": FixedLeg("a b c d")}, reranker=FixedReranker(LOGITS)
    ).retrieve(query("?"), TWO_STAGE, soon())

    third_of_one = answer.hits[0]
    assert third_of_one.score == pytest.approx(0.3 / 3 + 0.7 / (1 + math.exp(-3.0)), abs=1e-12)
    assert answer.hits[3].score == 1 / 4


async def test_reciprocal_ranks_are_mixed_as_a_share_of_the_best() -> None:
    store = await store_of(*said())
    profile = replace(TWO_STAGE, fusion=FusionMethod.RECIPROCAL_RANK)

    answer = await retriever(
        store, {"dense": FixedLeg("a b c d")}, reranker=FixedReranker(LOGITS)
    ).retrieve(query("?"), profile, soon())

    assert answer.hits[0].score == pytest.approx(
        0.3 * 61 / 63 + 0.7 / (1 + math.exp(-3.0)), abs=1e-12
    )


async def test_sensitive_hit_is_not_sent_to_reranker() -> None:
    store = await store_of(segment("secret", "one", sensitive=True), *said()[1:])
    reranker = FixedReranker(LOGITS)

    answer = await retriever(
        store, {"dense": FixedLeg("secret b c d")}, reranker=reranker
    ).retrieve(query("?"), TWO_STAGE, soon())

    assert all("one" not in text for text in reranker.asked)
    assert {hit.item.id: hit.stage for hit in answer.hits}["secret"] is Stage.COARSE


@pytest.mark.parametrize(
    ("reranker", "reason"),
    [
        (None, "the service has no reranker"),
        (BrokenReranker(NotReadyError("reranker", "no weights")), "reranker: no weights"),
        (BrokenReranker(OverloadedError("the reranker")), "the reranker is full"),
        (BrokenReranker(RuntimeError("secret")), "internal error"),
        (BrokenReranker(TimeoutError()), "the budget ran out"),
    ],
)
async def test_without_reranking_the_coarse_order_stands_and_says_why(
    reranker: Reranker | None, reason: str
) -> None:
    store = await store_of(*said())

    answer = await retriever(store, {"dense": FixedLeg("a b c d")}, reranker=reranker).retrieve(
        query("?"), TWO_STAGE, soon()
    )

    assert hit_ids(answer) == ["a", "b", "c", "d"]
    assert {hit.stage for hit in answer.hits} == {Stage.COARSE_FALLBACK}
    assert answer.rerank is not None
    assert answer.rerank.reason.startswith(reason)


async def test_reranking_predicted_late_is_coarse_and_reported() -> None:
    store = await store_of(*said())
    reranker = BrokenReranker(TooSlowError(0.025, 0.012))

    answer = await retriever(store, {"dense": FixedLeg("a b c d")}, reranker=reranker).retrieve(
        query("?"), TWO_STAGE, soon()
    )

    assert hit_ids(answer) == ["a", "b", "c", "d"]
    assert {hit.stage for hit in answer.hits} == {Stage.COARSE}
    assert answer.rerank is not None
    assert answer.rerank.stage is Stage.COARSE
    assert answer.rerank.reason == "the work would take about 25 ms, and 12 ms are left"


async def test_without_a_hit_nothing_was_reranked() -> None:
    reranker = FixedReranker(LOGITS)

    answer = await retriever(await store_of(), {"dense": FixedLeg()}, reranker=reranker).retrieve(
        query("?"), TWO_STAGE, soon()
    )

    assert answer.rerank is not None
    assert answer.rerank.stage is Stage.COARSE
    assert answer.rerank.reason == "no hit may be reranked"


async def test_a_reranker_that_hangs_costs_no_more_than_the_budget() -> None:
    store = await store_of(*said())

    answer = await retriever(
        store, {"dense": FixedLeg("a b c d")}, reranker=HangingReranker()
    ).retrieve(query("?"), TWO_STAGE, Deadline.after(0.1))

    assert hit_ids(answer) == ["a", "b", "c", "d"]
    assert answer.rerank is not None
    assert answer.rerank.reason == "the budget ran out"


async def test_reranker_that_hangs_is_not_asked_again() -> None:
    store = await store_of(*said())
    asked = retriever(store, {"dense": FixedLeg("a b c d")}, reranker=HangingReranker())
    for _ in range(FAILURES):
        await asked.retrieve(query("?"), TWO_STAGE, Deadline.after(0.1))

    again = await asked.retrieve(query("?"), TWO_STAGE, Deadline.after(0.1))

    assert again.rerank is not None
    assert again.rerank.stage is Stage.COARSE_FALLBACK
    assert again.rerank.reason.startswith("reranker: breaker open")


async def test_a_profile_that_does_not_rerank_labels_nothing() -> None:
    store = await store_of(*said())
    reranker = FixedReranker(LOGITS)

    answer = await retriever(store, {"dense": FixedLeg("a b")}, reranker=reranker).retrieve(
        query("?"), replace(TWO_STAGE, rerank=None), soon()
    )

    assert {hit.stage for hit in answer.hits} == {None}
    assert not reranker.asked
    assert answer.rerank is None
