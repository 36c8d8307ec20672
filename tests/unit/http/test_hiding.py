"""What a caller gets that wants no sensitive text."""

from __future__ import annotations

from tests.unit.http.requesting import FakeRpcs, application, requested
from trivium.v1 import fact_pb2, segment_pb2
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

RETRIEVE = "/trivium.v1.RetrievalService/Retrieve"
SECRET = "The code is 1234"


def answer(*, sensitive: bool) -> retrieval_pb.RetrieveResponse:
    segment = segment_pb2.Segment(
        id="s1", text=SECRET, title=SECRET, keywords=[SECRET], sensitive=sensitive
    )
    fact = fact_pb2.Fact(
        id="f1", subject=SECRET, object=SECRET, sentence=SECRET, sensitive=sensitive
    )
    return retrieval_pb.RetrieveResponse(
        hits=[retrieval_pb.Hit(segment=segment, rank=1), retrieval_pb.Hit(fact=fact, rank=2)],
        briefing=f"<memory>{SECRET}</memory>",
    )


async def asked(response: retrieval_pb.RetrieveResponse, **headers: str) -> str:
    app = application(FakeRpcs(response))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return (await requested(app, "POST", RETRIEVE, json={"query": "x"}, headers=named)).text


async def test_sensitive_items_are_answered_without_their_texts() -> None:
    text = await asked(answer(sensitive=True), trivium_hide_sensitive="1")

    assert SECRET not in text
    assert '"id":"s1"' in text
    assert '"id":"f1"' in text


async def test_other_items_and_other_callers_get_all_texts() -> None:
    assert (await asked(answer(sensitive=False), trivium_hide_sensitive="1")).count(SECRET) == 7
    assert (await asked(answer(sensitive=True))).count(SECRET) == 7
