"""What a caller gets that wants no sensitive text."""

from __future__ import annotations

from tests.unit.http.requesting import FakeRpcs, posted
from trivium.v1 import retrieval_service_pb2 as retrieval_pb
from trivium.v1.ingest_service_pb2 import ForgetResponse

RETRIEVE = "/trivium.v1.RetrievalService/Retrieve"
SECRET = "The code is 1234"


def answer(*, sensitive: bool) -> retrieval_pb.RetrieveResponse:
    texts = {"title": SECRET, "text": SECRET, "keywords": [SECRET]}
    fact = {"subject": SECRET, "object": SECRET, "sentence": SECRET}
    return retrieval_pb.RetrieveResponse(
        hits=[
            {"rank": 1, "segment": {"id": "s1", **texts, "sensitive": sensitive}},
            {"rank": 2, "fact": {"id": "f1", **fact, "sensitive": sensitive}},
        ],
        briefing=f"<memory>{SECRET}</memory>",
    )


async def test_dry_run_of_an_erasure_names_no_speaker() -> None:
    response = ForgetResponse(segment_count=2, speakers=[{"speaker": SECRET, "segment_count": 2}])
    service, path = FakeRpcs(response), "/trivium.v1.IngestService/Forget"

    shown = await posted(service, path, {"dryRun": True})
    hidden = await posted(service, path, {"dryRun": True}, trivium_hide_sensitive="1")

    assert hidden.json() == {"segmentCount": "2"}
    assert SECRET in shown.text


async def test_ledger_of_a_hidden_hit_shows_no_path() -> None:
    response = answer(sensitive=True)
    response.hits[1].ledger.leg_terms.add(leg="graph", rank=1, path=SECRET)

    assert SECRET not in await asked(response, trivium_hide_sensitive="1")


async def asked(response: retrieval_pb.RetrieveResponse, **headers: str) -> str:
    return (await posted(FakeRpcs(response), RETRIEVE, {"query": "x"}, **headers)).text


async def test_sensitive_items_are_answered_without_their_texts() -> None:
    text = await asked(answer(sensitive=True), trivium_hide_sensitive="1")

    assert SECRET not in text
    assert '"id":"s1"' in text
    assert '"id":"f1"' in text


async def test_other_items_and_other_callers_get_all_texts() -> None:
    assert (await asked(answer(sensitive=False), trivium_hide_sensitive="1")).count(SECRET) == 7
    assert (await asked(answer(sensitive=True))).count(SECRET) == 7
