from __future__ import annotations

from typing import Any

import pytest
from rich.progress import Progress

from bench.harness.collection import Collection, Memory, Query
from bench.harness.connections import connected
from bench.quality.scoring.evaluate import Scored
from bench.quality.scoring.metrics import scores
from bench.quality.session import WARM_UP, RejectedError, Session, extremes, fingerprint
from bench.quality.ways import Way
from tests.fakes.service import running
from tests.unit.bench.quality.fake_memory import FakeMemory
from trivium.v1 import ingest_service_pb2
from trivium.values import Segment


def collection(text: str = "Hello.", tenant: str = "t") -> Collection:
    query = Query(id="q", tenant=tenant, text="?", relevant=frozenset({"s"}))
    return Collection(
        name="c", memories={tenant: Memory([Segment(id="s", text=text)])}, queries=[query]
    )


def scored(id_: str, found: int, relevant: int = 2) -> Scored:
    gold = [f"g{place}" for place in range(relevant)]
    query = Query(id=id_, tenant="t", text="?", relevant=frozenset(gold))
    return Scored(
        query=query, ranked=gold[:found], scores=scores(gold[:found], set(gold), set(gold[:found]))
    )


def ids(answers: object) -> list[str]:
    assert isinstance(answers, list)
    return [each.query.id for each in answers]


def test_the_best_and_the_worst_are_told_and_none_is_both() -> None:
    answers = [scored("half", 1), scored("none", 0), scored("all", 2), scored("most", 3, 4)]

    best, worst = extremes(answers, count=10)

    assert ids(best) == ["all", "most"]
    assert ids(worst) == ["none", "half"]


def test_of_equally_good_answers_those_come_first_that_had_more_to_find() -> None:
    answers = [scored("a", 1, 1), scored("b", 3, 3), scored("c", 0), scored("d", 0)]

    assert ids(extremes(answers, count=1)[0]) == ["b"]


def test_one_answer_is_the_best_and_none_the_worst() -> None:
    best, worst = extremes([scored("only", 0)])

    assert (ids(best), worst) == (["only"], [])


def test_a_set_is_named_by_what_is_stored_of_it() -> None:
    assert fingerprint(collection()) == fingerprint(collection())
    assert fingerprint(collection()) != fingerprint(collection(text="Bye."))
    assert fingerprint(collection()) != fingerprint(collection(tenant="u"))


async def test_what_counts_is_asked_after_a_warm_up_and_explained_after_that() -> None:
    memory = FakeMemory()
    with running(memory):
        async with connected(memory.address, 1) as connections:
            session = Session(
                connections, await connections.profiles(), Progress(disable=True), limit=7
            )
            measured = await session.measure(collection(), [Way("default")])

    (answers,) = measured.answers
    (explained,) = measured.explained["default"]
    asked = [request for request in memory.asked if request.query == "?"]
    assert WARM_UP > 1
    assert [(each.explain, each.limit) for each in asked] == [(False, 7), (False, 7), (True, 7)]
    assert answers.values("recall@10") == [1]
    assert explained.retrieval is not None
    assert {each.tenant for each in asked} == {f"t-{fingerprint(collection())}"}


async def test_a_set_of_which_something_is_rejected_is_not_measured() -> None:
    class Refusing(FakeMemory):
        def Ingest(self, request: Any, context: Any) -> Any:  # noqa: N802
            response = ingest_service_pb2.IngestResponse()
            response.outcomes.add(index=0, state=ingest_service_pb2.ITEM_STATE_REJECTED)
            return response

    memory = Refusing()
    with running(memory):
        async with connected(memory.address, 1) as connections:
            session = Session(connections, await connections.profiles(), Progress(disable=True))
            with pytest.raises(RejectedError, match="c: the service rejected 1 segments"):
                await session.measure(collection(), [Way("default")])
