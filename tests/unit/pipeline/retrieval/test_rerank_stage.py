from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from serving.domain.breaker import FAILURES
from serving.domain.budget import Deadline
from serving.domain.errors import NotReadyError, OverloadedError, TooSlowError
from serving.domain.items.records import Segment
from serving.domain.ranking.ledger import FusionMethod
from serving.domain.ranking.profile import LegSpec, Profile, Rerank
from serving.pipeline.retrieval.order.hit import Stage
from serving.pipeline.retrieval.steps import Retrieval
from serving.ports.reranking import Reranker
from tests.fakes.pipeline import BrokenReranker, FixedLeg, FixedReranker, HangingReranker
from tests.support.builders import query, segment
from tests.unit.pipeline.retrieval.retrieving import answered, hit_ids, retriever, store_of

TWO_STAGE = Profile(
    name="two_stage",
    legs=(LegSpec(name="dense", depth=100),),
    fusion=FusionMethod.SCORE,
    rerank=Rerank(head=3, weight=0.7),
    fold_repeats=False,
)
LOGITS = {"one": -2.0, "two": 0.5, "three": 3.0, "four": 9.0}


SAID = [segment(name, text) for name, text in zip("abcd", LOGITS, strict=True)]


async def reranked(
    reranker: Reranker | None,
    *,
    profile: Profile = TWO_STAGE,
    stored: Sequence[Segment] = SAID,
    deadline: Deadline | None = None,
) -> Retrieval:
    """What all of these segments become by this reranker, which are found in their order."""
    legs = {"dense": FixedLeg([each.item for each in stored])}
    return await answered(stored, legs, profile, reranker=reranker, deadline=deadline)


def assert_is_coarse(answer: Retrieval, stage: Stage, reason: str) -> None:
    """Whether the hits have their order without reranking, and the answer says why."""
    assert hit_ids(answer) == ["a", "b", "c", "d"]
    assert {hit.stage for hit in answer.hits} == {stage}
    assert answer.rerank is not None
    assert answer.rerank.stage is stage
    assert answer.rerank.reason.startswith(reason)


@pytest.mark.parametrize(
    ("fusion", "coarse"),
    [(FusionMethod.SCORE, 1 / 3), (FusionMethod.RECIPROCAL_RANK, 61 / 63)],
    ids=["cosine as it is", "reciprocal ranks as a share of the best"],
)
async def test_reranked_head_precedes_the_coarse_rest(fusion: FusionMethod, coarse: float) -> None:
    reranker = FixedReranker(LOGITS)

    answer = await reranked(reranker, profile=replace(TWO_STAGE, fusion=fusion))

    assert hit_ids(answer) == ["c", "b", "a", "d"]
    assert [hit.stage for hit in answer.hits] == [*[Stage.RERANKED] * 3, Stage.COARSE]
    assert len(reranker.asked) == 3
    best = 0.3 * coarse + 0.7 / (1 + math.exp(-3.0))
    assert answer.hits[0].score == pytest.approx(best, abs=1e-12)
    assert answer.hits[3].score == (1 / 4 if fusion is FusionMethod.SCORE else 1 / 64)


async def test_sensitive_hit_is_not_sent_to_reranker() -> None:
    reranker = FixedReranker(LOGITS)
    secret = segment("secret", "one", sensitive=True)

    answer = await reranked(reranker, stored=[secret, *SAID[1:]])

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
    assert_is_coarse(await reranked(reranker), Stage.COARSE_FALLBACK, reason)


async def test_reranking_predicted_late_is_coarse_and_reported() -> None:
    answer = await reranked(BrokenReranker(TooSlowError(0.025, 0.012)))

    reason = "the work would take about 25 ms, and 12 ms are left"
    assert_is_coarse(answer, Stage.COARSE, reason)


async def test_without_a_hit_nothing_was_reranked() -> None:
    answer = await reranked(FixedReranker(LOGITS), stored=[])

    assert answer.rerank is not None
    assert answer.rerank.stage is Stage.COARSE
    assert answer.rerank.reason == "no hit may be reranked"


async def test_a_reranker_that_hangs_costs_no_more_than_the_budget() -> None:
    answer = await reranked(HangingReranker(), deadline=Deadline.after(0.1))

    assert_is_coarse(answer, Stage.COARSE_FALLBACK, "the budget ran out")


async def test_reranker_that_hangs_is_not_asked_again() -> None:
    legs = {"dense": FixedLeg("a b c d")}
    asked = retriever(await store_of(*SAID), legs, reranker=HangingReranker())
    for _ in range(FAILURES):
        await asked.retrieve(query("?"), TWO_STAGE, Deadline.after(0.1))

    again = await asked.retrieve(query("?"), TWO_STAGE, Deadline.after(0.1))

    assert_is_coarse(again, Stage.COARSE_FALLBACK, "reranker: breaker open")


async def test_a_profile_that_does_not_rerank_labels_nothing() -> None:
    reranker = FixedReranker(LOGITS)

    answer = await reranked(reranker, profile=replace(TWO_STAGE, rerank=None))

    assert {hit.stage for hit in answer.hits} == {None}
    assert not reranker.asked
    assert answer.rerank is None
