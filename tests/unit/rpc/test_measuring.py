"""What the service counts of the questions that it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from google.protobuf.struct_pb2 import Struct

from serving.pipeline.legs import Leg
from serving.profiles import ProfileBook
from serving.rpc.service import TriviumService, UseCases
from serving.telemetry import ANSWERS, ANSWERS_BY_LEG_ALONE, Metric
from tests.builders import A_DAY_LATER, segment
from tests.fakes import FixedLeg
from tests.unit.pipeline.retrieving import retriever, store_of
from tests.unit.rpc.test_boundary import RecordingContext
from trivium.v1 import retrieval_service_pb2

NOBODY: Any = None
"""For the use cases that a question needs nothing of."""


class CountingRecorder:
    """Adds up each metric by its labels."""

    def __init__(self) -> None:
        self.sums: dict[Metric, Counter[tuple[str, ...]]] = {}

    def record(self, metric: Metric, value: float, labels: Mapping[str, str] | None = None) -> None:
        sums = self.sums.setdefault(metric, Counter())
        sums[tuple((labels or {}).values())] += round(value)


def changes(**fields: Any) -> Struct:
    made = Struct()
    made.update(fields)
    return made


async def counted(
    legs: Mapping[str, Leg], overrides: Mapping[str, Any]
) -> tuple[CountingRecorder, retrieval_service_pb2.RetrieveResponse]:
    """What is recorded of one answer, and the answer."""
    recorder = CountingRecorder()
    store = await store_of(*(segment(name, f"text {name}") for name in "abc"))
    use_cases = UseCases(
        retriever=retriever(store, legs),
        explainer=NOBODY,
        ingestor=NOBODY,
        eraser=NOBODY,
        observer=NOBODY,
        store=store,
        catalog=NOBODY,
        embedder=NOBODY,
    )
    service = TriviumService(
        use_cases, ProfileBook.load(), recorder=recorder, now=lambda: A_DAY_LATER
    )
    request = retrieval_service_pb2.RetrieveRequest(
        tenant="acme", query="?", profile="recollection", profile_overrides=changes(**overrides)
    )
    return recorder, await service.Retrieve(request, RecordingContext())


async def test_a_leg_is_counted_where_it_brought_a_hit_that_no_other_found() -> None:
    legs = {"lexical": FixedLeg("a b"), "dense": FixedLeg("b c"), "graph": FixedLeg("b")}

    recorder, _ = await counted(legs, {"legs": {"graph": {}}})

    assert recorder.sums[ANSWERS] == {("recollection",): 1}
    assert recorder.sums[ANSWERS_BY_LEG_ALONE] == {
        ("recollection", "lexical"): 1,
        ("recollection", "dense"): 1,
    }


async def test_a_leg_whose_hits_were_not_shown_is_not_counted() -> None:
    legs = {"lexical": FixedLeg("a b"), "dense": FixedLeg("a b c")}

    recorder, _ = await counted(legs, {"limit": 2})

    assert ANSWERS_BY_LEG_ALONE not in recorder.sums


async def test_signals_find_nothing_and_are_not_among_who_found_a_hit() -> None:
    _, answer = await counted({"lexical": FixedLeg("a b"), "dense": FixedLeg("b")}, {})

    assert {hit.segment.id: list(hit.legs) for hit in answer.hits} == {
        "a": ["lexical"],
        "b": ["lexical", "dense"],
    }
