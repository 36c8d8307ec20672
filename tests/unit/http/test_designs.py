"""The endpoints of the published designs: the requests of their documents, and their answers."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from serving.rpc.message_bounds import QUESTION
from tests.unit.http.requesting import JSON, FakeRpcs, posted, sent
from trivium.v1 import fact_pb2, segment_pb2
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

EVENT = "2026-05-01T12:00:00Z"


def segment(**fields: Any) -> segment_pb2.Segment:
    made = segment_pb2.Segment(id="s1", text="I told Priya", kind="symbol", **fields)
    made.event_time.FromJsonString(EVENT)
    return made


def hit(**fields: Any) -> retrieval_pb.Hit:
    return retrieval_pb.Hit(**{"segment": segment(), "rank": 1, "score": 0.5, **fields})


FOUND = retrieval_pb.RetrieveResponse(hits=[hit()], briefing="<memory>")


async def asked(
    path: str, given: Any, response: Message = FOUND, verb: str = "POST", **more: Any
) -> tuple[retrieval_pb.RetrieveRequest, Any]:
    """The RetrieveRequest that a request becomes, and the answer."""
    service = FakeRpcs(response)
    answer = await sent(service, verb, path, json=given, **more)
    assert answer.status_code == 200, answer.text
    (request,) = service.requests
    return request, answer.json()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"text": "a", "filters": {"object_types": [0] * QUESTION.max_values}}, "values"),
        ({"text": "a", "filters": {"object_types": [0] * 33}}, "has 33 faults"),
        ({"text": "a", **{f"x{place}": 0 for place in range(33)}}, "has 33 faults"),
        ({"text": "a", "filters": {"object_types": [0]}}, "filters.object_types.0: Input should"),
    ],
)
async def test_request_with_many_faults_is_told_briefly(given: Any, why: str) -> None:
    service = FakeRpcs()

    answer = await posted(service, "/v1/query", given)

    assert (answer.status_code, service.requests) == (400, [])
    assert why in answer.json()["message"]


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("tenant=a", '{"text": "x", "tenant": "b"}'),
        ("tenant=a&tenant=b", '{"text": "x"}'),
        ("text=x", '{"text": "y"}'),
        ("", '{"text": "x", "tenant": "a", "tenant": "b"}'),
        ("", '{"text": "x", "filters": {"project_id": "a", "project_id": "b"}}'),
    ],
)
async def test_field_given_twice_is_an_error(query: str, body: str) -> None:
    service = FakeRpcs()
    path = f"/v1/query?{query}"

    answer = await sent(service, "POST", path, content=body, headers=JSON)

    assert (answer.status_code, service.requests) == (400, [])


async def test_field_given_twice_alike_is_none() -> None:
    request, _ = await asked("/v1/query?tenant=a", {"text": "x", "tenant": "a"})

    assert request.tenant == "a"


async def test_field_under_both_of_its_names_is_an_error() -> None:
    answer = await posted(FakeRpcs(), "/api/memories/recall", {"query": "x", "context": "y"})

    assert answer.status_code == 400


async def test_annie_asks_for_context_before_a_call() -> None:
    fact = fact_pb2.Fact(subject="Rajesh", relation="planning vacation", object="Priya")
    fact.recorded_at.FromJsonString(EVENT)
    told = segment(speaker="Rajesh", session="call-1", entities=["Priya"])
    response = retrieval_pb.RetrieveResponse(
        hits=[hit(segment=told), retrieval_pb.Hit(fact=fact, rank=2, score=0.25)],
        briefing="<memory>",
    )

    path = "/v1/context?query=recent+conversations+and+key+facts&limit=10"
    request, answer = await asked(path, None, response, verb="GET")

    assert request == retrieval_pb.RetrieveRequest(
        query="recent conversations and key facts", limit=10, profile="annie", briefing={}
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
    given = {"text": "login handler", "hybrid": True, "limit": 20}
    filters = {"object_types": ["symbol"], "project_id": "my-project"}
    since = {"created_after": "2026-01-01T00:00:00Z"}

    request, _ = await asked("/v1/query?tenant=acme", {**given, "filters": {**filters, **since}})

    assert (request.tenant, request.query, request.limit) == ("acme", "login handler", 20)
    assert (request.profile, request.explain) == ("object_graph", True)
    assert list(request.leg_overrides) == []
    assert list(request.filter.kinds) == ["symbol"]
    (label,) = request.filter.labels
    assert (label.key, list(label.values)) == ("project_id", ["my-project"])
    assert request.filter.created_at.start.ToJsonString() == "2026-01-01T00:00:00Z"
    assert not request.filter.created_at.HasField("end")


async def test_amp_without_hybrid_searches_by_meaning_alone() -> None:
    request, _ = await asked("/v1/query", {"text": "authentication", "hybrid": False})

    weights = {each.leg: each.weight for each in request.leg_overrides}
    assert weights == {"graph": 0.0, "temporal": 0.0}


async def test_amp_answers_with_sources_ranks_and_statistics() -> None:
    terms = [{"leg": "dense", "rank": 1}, {"leg": "graph", "rank": 2.5}]
    counts = {"dense": 25, "graph": 18}
    response = retrieval_pb.RetrieveResponse(
        hits=[hit(segment=segment(title="authenticate"), ledger={"leg_terms": terms})],
        leg_reports=[{"leg": leg, "candidate_count": count} for leg, count in counts.items()],
        statistics={"candidate_count": 42},
    )

    _, answer = await asked("/v1/query", {"text": "x", "limit": 7}, response)

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
    reranked = retrieval_pb.RetrieveResponse(hits=[hit(stage=retrieval_pb.STAGE_RERANKED)])
    path, params = "/agents/test_agent/retrieve-hybrid", given if in_url else None

    request, answer = await asked(path, None if in_url else given, reranked, params=params)

    assert (request.profile, request.limit) == ("two_stage", 30)
    (label,) = request.filter.labels
    assert (label.key, list(label.values)) == ("agent_id", ["test_agent"])
    changes = {"legs": {"dense": {"depth": 60}}, "rerank": {"head": 30}}
    assert MessageToDict(request.profile_overrides) == changes
    (found,) = answer["results"]
    assert found == {"episode_id": "s1", "relevance_score": 0.5, "stage": "reranked"}


async def test_two_stages_without_reranking_are_one() -> None:
    given = {"query": "test query", "use_reranking": False}

    request, answer = await asked("/agents/a/retrieve-hybrid", given)

    assert request.profile == "two_stage_baseline"
    assert answer["results"][0]["stage"] == "coarse"


async def test_baseline_returns_episodes_without_stages() -> None:
    given = {"query": "test query", "top_k": 50}

    request, answer = await asked("/agents/a/retrieve-baseline", given)

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
    given = {"context": "Goa", "sort_by": sort_by}

    request, answer = await asked("/api/memories/recall", given)

    assert (request.query, request.limit, request.profile) == ("Goa", 10, "hybrid_recall")
    assert MessageToDict(request.profile_overrides) == overrides
    (memory,) = answer["memories"]
    assert (memory["id"], memory["content"]) == ("s1", "I told Priya")


async def test_recollection_answers_a_prompt_with_three_episodes() -> None:
    request, answer = await asked("/recollect", {"prompt": "fix the build"})

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

    answer = await posted(service, path, given)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
    assert service.requests == []
