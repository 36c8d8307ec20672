"""The endpoints of the published designs: the requests of their documents, and their answers."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from tests.unit.http.requesting import FakeRpcs, application, requested
from trivium.v1 import fact_pb2, segment_pb2
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

EVENT = "2026-05-01T12:00:00Z"


def segment(**fields: Any) -> segment_pb2.Segment:
    made = segment_pb2.Segment(id="s1", text="I told Priya", kind="symbol", **fields)
    made.event_time.FromJsonString(EVENT)
    return made


def hit(**fields: Any) -> retrieval_pb.Hit:
    given = {"segment": segment(), "rank": 1, "score": 0.5, **fields}
    return retrieval_pb.Hit(**given)


async def asked(
    verb: str, path: str, response: retrieval_pb.RetrieveResponse | None = None, **more: Any
) -> tuple[retrieval_pb.RetrieveRequest, Any]:
    """The RetrieveRequest that a request becomes, and the answer."""
    service = FakeRpcs(response)
    answer = await requested(application(service), verb, path, **more)
    assert answer.status_code == 200, answer.text
    (request,) = service.requests
    return request, answer.json()


async def test_annie_asks_for_context_before_a_call() -> None:
    fact = fact_pb2.Fact(subject="Rajesh", relation="planning vacation", object="Priya")
    fact.recorded_at.FromJsonString(EVENT)
    told = segment(speaker="Rajesh", session="call-1", entities=["Priya"])
    response = retrieval_pb.RetrieveResponse(
        hits=[hit(segment=told), retrieval_pb.Hit(fact=fact, rank=2, score=0.25)],
        briefing="<memory>",
    )

    request, answer = await asked(
        "GET", "/v1/context?query=recent+conversations+and+key+facts&limit=10", response
    )

    assert request == retrieval_pb.RetrieveRequest(
        query="recent conversations and key facts",
        limit=10,
        profile="annie",
        briefing=retrieval_pb.BriefingOptions(),
    )
    assert answer["context"] == "<memory>"
    assert answer["results"] == [
        {
            "text": "I told Priya",
            "source_session": "call-1",
            "timestamp": EVENT,
            "relevance_score": 0.5,
            "entities": ["Priya"],
            "speaker": "Rajesh",
        },
        {
            "text": "Rajesh -> Priya: planning vacation",
            "source_session": "",
            "timestamp": EVENT,
            "relevance_score": 0.25,
            "entities": ["Rajesh", "Priya"],
            "speaker": "",
        },
    ]


async def test_amp_queries_with_filters() -> None:
    request, _ = await asked(
        "POST",
        "/v1/query?tenant=acme",
        json={
            "text": "login handler",
            "hybrid": True,
            "limit": 20,
            "filters": {
                "object_types": ["symbol"],
                "project_id": "my-project",
                "created_after": "2026-01-01T00:00:00Z",
            },
        },
    )

    assert (request.tenant, request.query, request.limit) == ("acme", "login handler", 20)
    assert (request.profile, request.explain) == ("object_graph", True)
    assert list(request.leg_overrides) == []
    assert list(request.filter.kinds) == ["symbol"]
    (label,) = request.filter.labels
    assert (label.key, list(label.values)) == ("project_id", ["my-project"])
    assert request.filter.created_at.start.ToJsonString() == "2026-01-01T00:00:00Z"
    assert not request.filter.created_at.HasField("end")


async def test_amp_without_hybrid_searches_by_meaning_alone() -> None:
    request, _ = await asked("POST", "/v1/query", json={"text": "authentication", "hybrid": False})

    assert {(each.leg, each.weight) for each in request.leg_overrides} == {
        ("graph", 0.0),
        ("temporal", 0.0),
    }


async def test_amp_answers_with_sources_ranks_and_statistics() -> None:
    terms = [
        retrieval_pb.LegTerm(leg="dense", rank=1),
        retrieval_pb.LegTerm(leg="graph", rank=2.5),
    ]
    found = hit(segment=segment(title="authenticate"), ledger=retrieval_pb.Ledger(leg_terms=terms))
    reports = [
        retrieval_pb.LegReport(leg="dense", candidate_count=25),
        retrieval_pb.LegReport(leg="graph", candidate_count=18),
    ]
    response = retrieval_pb.RetrieveResponse(
        hits=[found],
        leg_reports=reports,
        statistics=retrieval_pb.Statistics(candidate_count=42),
    )

    _, answer = await asked("POST", "/v1/query", response, json={"text": "x", "limit": 7})

    assert answer == {
        "results": [
            {
                "id": "s1",
                "type": "symbol",
                "name": "authenticate",
                "score": 0.5,
                "sources": ["vector", "graph"],
                "ranks": {"vector": 1, "graph": 2.5},
            }
        ],
        "total": 42,
        "limit": 7,
        "retrieval_stats": {
            "vector_count": 25,
            "graph_count": 18,
            "temporal_count": 0,
            "fused_count": 42,
        },
    }


@pytest.mark.parametrize("in_url", [True, False])
async def test_two_stages_take_their_sizes(in_url: bool) -> None:
    given = {"query": "test query", "coarse_top_k": 60, "rerank_top_k": 30}
    response = retrieval_pb.RetrieveResponse(hits=[hit(stage=retrieval_pb.STAGE_RERANKED)])

    request, answer = await asked(
        "POST",
        "/agents/test_agent/retrieve-hybrid",
        response,
        **({"params": given} if in_url else {"json": given}),
    )

    assert (request.profile, request.limit) == ("two_stage", 30)
    (label,) = request.filter.labels
    assert (label.key, list(label.values)) == ("agent_id", ["test_agent"])
    assert MessageToDict(request.profile_overrides) == {
        "legs": {"dense": {"depth": 60}},
        "rerank": {"head": 30},
    }
    assert answer == {
        "results": [{"episode_id": "s1", "relevance_score": 0.5, "stage": "reranked"}]
    }


async def test_two_stages_without_reranking_are_one() -> None:
    request, answer = await asked(
        "POST",
        "/agents/a/retrieve-hybrid",
        retrieval_pb.RetrieveResponse(hits=[hit()]),
        json={"query": "test query", "use_reranking": False},
    )

    assert request.profile == "two_stage_baseline"
    assert answer["results"][0]["stage"] == "coarse"


async def test_baseline_returns_episodes_without_stages() -> None:
    request, answer = await asked(
        "POST",
        "/agents/a/retrieve-baseline",
        retrieval_pb.RetrieveResponse(hits=[hit()]),
        json={"query": "test query", "top_k": 50},
    )

    assert (request.profile, request.limit) == ("two_stage_baseline", 50)
    assert answer == {"results": [{"episode_id": "s1", "relevance_score": 0.5}]}


@pytest.mark.parametrize(
    ("sort_by", "overrides"),
    [
        ("relevance", {}),
        ("importance", {"sort": "importance", "importance": {"style": "off"}}),
        ("recency", {"sort": "recency"}),
    ],
)
async def test_hybrid_recall_sorts_as_told(sort_by: str, overrides: dict[str, Any]) -> None:
    request, answer = await asked(
        "POST",
        "/api/memories/recall",
        retrieval_pb.RetrieveResponse(hits=[hit()]),
        json={"context": "Goa", "sort_by": sort_by},
    )

    assert (request.query, request.limit, request.profile) == ("Goa", 10, "hybrid_recall")
    assert MessageToDict(request.profile_overrides) == overrides
    assert [(each["id"], each["content"]) for each in answer["memories"]] == [
        ("s1", "I told Priya")
    ]


async def test_recollection_answers_a_prompt_with_three_episodes() -> None:
    request, answer = await asked(
        "POST",
        "/recollect",
        retrieval_pb.RetrieveResponse(hits=[hit()], briefing="<memory>"),
        json={"prompt": "fix the build"},
    )

    assert (request.query, request.limit, request.profile) == ("fix the build", 3, "recollection")
    assert answer["recollection"] == "<memory>"
    assert [each["id"] for each in answer["episodes"]] == ["s1"]


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/v1/query", {"text": "x", "filters": {"author": "me"}}),
        ("/v1/query", {"text": "x", "limit": 101}),
        ("/v1/query", {"hybrid": True}),
        ("/api/memories/recall", {"query": "x", "sort_by": "luck"}),
        ("/agents/a/retrieve-hybrid", {"query": "x", "coarse_top_k": 0}),
        ("/recollect", {"prompt": 1}),
    ],
)
async def test_field_that_a_design_lacks_is_an_error(path: str, given: dict[str, Any]) -> None:
    service = FakeRpcs()

    answer = await requested(application(service), "POST", path, json=given)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
    assert service.requests == []
