"""Routes for people."""

from __future__ import annotations

import pytest

from serving.http.messages import from_query
from tests.unit.http.requesting import FakeRpcs, posted, sent
from trivium.v1 import catalog_service_pb2 as catalog_pb
from trivium.v1 import filter_pb2
from trivium.v1 import ingest_service_pb2 as ingest_pb
from trivium.v1 import retrieval_service_pb2 as retrieval_pb


async def test_answers_have_proto_names_and_empty_fields() -> None:
    service = FakeRpcs(retrieval_pb.RetrieveResponse(profile="default"))

    answer = await posted(service, "/v1/retrieve", {"tenant": "acme", "query": "x"})

    lists: dict[str, object] = {"hits": [], "leg_reports": [], "coercions": []}
    assert answer.json() == {**lists, "briefing": "", "profile": "default"}


async def test_names_may_be_in_either_case() -> None:
    service = FakeRpcs()
    for given in ({"time_budget": "0.1s"}, {"timeBudget": "0.1s"}):
        await posted(service, "/v1/retrieve", {"query": "x", **given})

    first, second = service.requests
    assert first == second
    assert first.time_budget.nanos == 100_000_000


async def test_times_are_rfc_3339() -> None:
    service = FakeRpcs(ingest_pb.IngestResponse(consistency_token="t"))
    segment = {"id": "1", "text": "x", "event_time": "2026-05-01T12:00:00+02:00"}

    await posted(service, "/v1/ingest", {"tenant": "acme", "items": [{"segment": segment}]})

    stored = service.requests[0].items[0].segment
    assert stored.event_time.ToJsonString() == "2026-05-01T10:00:00Z"


async def test_misspelt_field_is_named_in_the_error() -> None:
    answer = await posted(FakeRpcs(), "/v1/retrieve", {"tenant": "acme", "qurey": "x"})

    assert answer.status_code == 400
    assert "qurey" in answer.json()["message"]


async def test_url_query_sets_nested_and_repeated_fields() -> None:
    service = FakeRpcs()

    speakers = "filter.speakers=Mara&filter.speakers=Nora"
    times = "filter.event_time.start=2026-05-01T00:00:00Z"
    path = f"/v1/segments?tenant=acme&page_size=2&{speakers}&{times}"
    answer = await sent(service, "GET", path)

    assert answer.status_code == 200
    expected = catalog_pb.ListSegmentsRequest(
        tenant="acme", page_size=2, filter=filter_pb2.Filter(speakers=["Mara", "Nora"])
    )
    expected.filter.event_time.start.FromJsonString("2026-05-01T00:00:00Z")
    assert service.requests == [expected]


@pytest.mark.parametrize(
    "query",
    [
        "tenants=acme",
        "tenant.name=acme",
        "tenant=acme&tenant=other",
        "filter=x",
        "filter.labels.key=x",
        "page_size=many",
        "filter.event_time.start=yesterday",
        "tenant=%ff",
        "tenant=acme&filter.speakers=%c3",
    ],
)
async def test_url_query_that_fits_no_field_is_refused(query: str) -> None:
    service = FakeRpcs()

    answer = await sent(service, "GET", f"/v1/segments?{query}")

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
    assert service.requests == []


@pytest.mark.parametrize("query", ["tenant=Zoë", "tenant=Zo%C3%AB"])
def test_url_query_may_have_unescaped_utf8(query: str) -> None:
    assert from_query(query.encode(), catalog_pb.ListSegmentsRequest) == (
        catalog_pb.ListSegmentsRequest(tenant="Zoë")
    )


async def test_unknown_paths_point_to_the_list_of_routes() -> None:
    missing = await sent(FakeRpcs(), "GET", "/v1/nothing")
    wrong = await sent(FakeRpcs(), "GET", "/v1/retrieve")

    assert (missing.status_code, wrong.status_code) == (404, 405)
    assert "openapi.json" in missing.json()["message"]
    assert wrong.headers["allow"] == "POST"


async def test_fields_in_the_url_of_a_post_are_an_error() -> None:
    service = FakeRpcs()

    answer = await sent(service, "POST", "/v1/retrieve?tenant=a", json={"tenant": "b"})

    assert (answer.status_code, service.requests) == (400, [])
