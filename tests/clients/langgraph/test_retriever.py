"""The retriever through LangChain's own interface."""

from __future__ import annotations

import grpc
import pytest

from tests.fakes.service import Failure, FakeService
from trivium import AsyncClient, Client, UnavailableError
from trivium.v1.fact_pb2 import Fact
from trivium.v1.retrieval_service_pb2 import Hit, RetrieveResponse
from trivium.v1.segment_pb2 import Segment
from trivium_langgraph.retriever import TriviumRetriever

SEGMENT = Segment(
    id="t1", text="We sailed.", speaker="Nora", session="s", labels={"trip": "goa", "kind": "x"}
)
FACT = Fact(id="f1", subject="Nora", relation="lives_in", object="Goa")
FOUND = RetrieveResponse(hits=[Hit(segment=SEGMENT, rank=1, score=0.5), Hit(fact=FACT, rank=2)])


async def test_documents_have_ids_texts_and_metadata(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", *[FOUND] * 3)
    with Client(fake_service.address, tenant="acme") as client:
        retriever = TriviumRetriever(client=client, limit=3, profile="annie")
        documents = retriever.invoke("Who sails?")
        assert await retriever.ainvoke("Who sails?") == documents
    async with AsyncClient(fake_service.address, tenant="acme") as async_client:
        retriever = TriviumRetriever(client=async_client)
        assert await retriever.ainvoke("Who sails?") == documents
        with pytest.raises(TypeError, match="ainvoke"):
            retriever.invoke("Who sails?")

    segment, fact = documents
    assert (segment.id, segment.page_content) == ("t1", "We sailed.")
    assert segment.metadata["speaker"] == "Nora"
    assert (segment.metadata["kind"], segment.metadata["trip"]) == ("segment", "goa")
    assert (fact.id, fact.metadata["kind"], fact.metadata["rank"]) == ("f1", "fact", 2)
    request = fake_service.requests[0]
    assert (request.query, request.limit, request.profile) == ("Who sails?", 3, "annie")


def test_service_that_is_down_raises(fake_service: FakeService) -> None:
    down = Failure(grpc.StatusCode.UNAVAILABLE, "down")
    fake_service.will_answer("Retrieve", *[down] * 9)
    with Client(fake_service.address, tenant="acme") as client, pytest.raises(UnavailableError):
        TriviumRetriever(client=client).invoke("Who sails?")
