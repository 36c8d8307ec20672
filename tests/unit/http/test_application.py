"""Routes for people and for all: hosts, other sites, what is hidden, and files of pages."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.message import Message

from serving.http.application import asgi_application, is_private
from serving.http.designs import DESIGNS
from serving.http.messages import from_json, from_query
from serving.http.plain import PLAIN_ROUTES
from serving.http.static import FILES, FOLDER, OPENAPI, PAGE
from serving.rpc.identity.authenticator import Authenticator
from serving.rpc.registration import Malformed
from tests.support.tracked_files import ROOT
from tests.unit.http.requesting import FakeRpcs, posted, sent
from trivium.v1 import catalog_service_pb2 as catalog_pb
from trivium.v1 import filter_pb2
from trivium.v1 import retrieval_service_pb2 as retrieval_pb
from trivium.v1.ingest_service_pb2 import ForgetResponse, IngestRequest
from trivium.v1.retrieval_service_pb2 import RetrieveRequest

ASK = ("POST", "/v1/retrieve")
PREFLIGHT = ("OPTIONS", "/v1/retrieve")
SITE, EVIL = (
    {"origin": f"https://{name}.example", "access-control-request-method": "POST"}
    for name in ("app", "evil")
)
CORS = {"cors_origins": ["https://app.example"]}


@pytest.mark.parametrize(
    ("host", "private"),
    [
        *[(host, True) for host in ("127.0.0.1", "::1", "10.1.2.3", "localhost", "trivium")],
        *[(host, True) for host in ("Trivium.Default.SVC.cluster.local.", "trivium.internal")],
        ("notlocal", True),
        ("ai", False),
        ("xn--p1ai", False),
        ("", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("evil.notlocal", False),
    ],
)
def test_host_is_private_as_its_name_says(host: str, private: bool) -> None:
    assert is_private(host) is private


async def test_open_service_refuses_public_host_names() -> None:
    service = FakeRpcs()

    answer = await sent(service, *ASK, json={}, base_url="http://evil.example")

    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    assert service.requests == []


async def test_service_with_keys_may_have_a_public_name() -> None:
    service = FakeRpcs()
    service.authenticator = Authenticator(keys=lambda text: pytest.fail(text))

    answer = await sent(service, *ASK, json={}, base_url="http://my.example")

    assert answer.status_code == 401


async def test_other_sites_may_not_read_answers_by_default() -> None:
    preflight = await sent(FakeRpcs(), *PREFLIGHT, headers=SITE)
    answer = await sent(FakeRpcs(), *ASK, json={}, headers=SITE)

    assert (preflight.status_code, answer.status_code) == (405, 200)
    for each in (preflight, answer):
        assert not [name for name in each.headers if name.startswith("access-control")]


async def test_configured_site_alone_may_read_answers() -> None:
    ours = await sent(FakeRpcs(), *ASK, json={}, headers=SITE, options=CORS)
    other = await sent(FakeRpcs(), *ASK, json={}, headers=EVIL, options=CORS)

    assert ours.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-origin" not in other.headers


async def test_preflight_of_another_site_is_an_invalid_argument() -> None:
    answer = await sent(FakeRpcs(), *PREFLIGHT, headers=EVIL, options=CORS)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", [*FILES, *PAGE])
async def test_files_are_served_under_a_strict_policy(path: str) -> None:
    answer = await sent(FakeRpcs(), "GET", path, options={"ui": True})

    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_page_on_http_lists_every_route() -> None:
    page = (ROOT / "docs/http.md").read_text()
    routes = [
        *(f"`{each.verb} {each.path}`" for each in PLAIN_ROUTES),
        *(f"`{each.verb} {each.path}`" for each in DESIGNS),
    ]

    assert [route for route in routes if route not in page] == []
    assert [path for path in ("/openapi.json", "/docs") if path not in page] == []


async def test_page_is_served_if_set_and_names_ports() -> None:
    ports = {"ui": True, "grpc_port": 9001, "dashboard_port": 8265}

    page = await sent(FakeRpcs(), "GET", "/ui", options=ports)

    assert '<meta name="grpc-port" content="9001">' in page.text
    assert '<meta name="dashboard-port" content="8265">' in page.text
    assert (await sent(FakeRpcs(), "GET", "/ui")).status_code == 404


def test_files_of_pages_name_no_other_host() -> None:
    texts = {path: (FOLDER / name).read_text() for path, name in {**FILES, **PAGE}.items()}
    links = {"https://connectrpc.com/docs/protocol", "http://www.w3.org/2000/svg"}

    for path, text in texts.items():
        if path != "/openapi.json":
            assert set(re.findall(r"https?://[\w./-]+", text)) <= links, path
            assert "innerHTML" not in text or "vendor" in path


RETRIEVE = "/trivium.v1.RetrievalService/Retrieve"
SECRET = "The code is 1234"


def answer(*, sensitive: bool) -> retrieval_pb.RetrieveResponse:
    texts = {"title": SECRET, "text": SECRET, "keywords": [SECRET]}
    fact = {"subject": SECRET, "object": SECRET, "sentence": SECRET}
    ledger = {"leg_terms": [{"leg": "graph", "rank": 1, "path": SECRET}]}
    return retrieval_pb.RetrieveResponse(
        hits=[
            {"rank": 1, "segment": {"id": "s1", **texts, "sensitive": sensitive}},
            {"rank": 2, "fact": {"id": "f1", **fact, "sensitive": sensitive}, "ledger": ledger},
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


async def asked(response: retrieval_pb.RetrieveResponse, **headers: str) -> str:
    return (await posted(FakeRpcs(response), RETRIEVE, {"query": "x"}, **headers)).text


async def test_sensitive_items_are_answered_without_their_texts() -> None:
    text = await asked(answer(sensitive=True), trivium_hide_sensitive="1")

    assert SECRET not in text
    assert '"id":"s1"' in text
    assert '"id":"f1"' in text


async def test_other_items_and_other_callers_get_all_texts() -> None:
    assert (await asked(answer(sensitive=False), trivium_hide_sensitive="1")).count(SECRET) == 8
    assert (await asked(answer(sensitive=True))).count(SECRET) == 8


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


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("page_size=1&page_size=2", "page_size"),
        ("filter.event_time.start=a&filter.event_time=b", "filter.event_time"),
        ("filter=x&filter.speakers=Mara", "filter.speakers"),
    ],
)
def test_field_set_twice_in_a_url_is_named(query: str, name: str) -> None:
    read = from_query(query.encode(), catalog_pb.ListSegmentsRequest)

    assert read == Malformed(f"{name!r} is set twice in the URL")


@pytest.mark.parametrize("sign", ["+", "%2B"])
def test_zone_of_a_time_needs_no_escape(sign: str) -> None:
    query = f"filter.event_time.start=2026-05-01T01:00:00{sign}01:00"

    expected = catalog_pb.ListSegmentsRequest()
    expected.filter.event_time.start.FromJsonString("2026-05-01T00:00:00Z")
    assert from_query(query.encode(), catalog_pb.ListSegmentsRequest) == expected


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


# ---------------------------------------------------------------- faults of JSON


TIME = 'a time with its zone, such as "2026-05-01T12:00:00Z"'
INTEGER = "an integer of 32 bits"


def fault(body: str | bytes, message_class: type[Message], *, strict: bool = True) -> str:
    data = body.encode() if isinstance(body, str) else body
    read: Any = from_json(data, message_class, strict=strict)
    assert isinstance(read, Malformed), read
    assert read.why.startswith(f"is not JSON of {message_class.DESCRIPTOR.name}: ")
    return read.why.partition(": ")[2]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"query": 3}', "query must be a text"),
        ('{"query": "\\ud800"}', "query must be a text"),
        ('{"limit": "x"}', f"limit must be {INTEGER}"),
        ('{"limit": 1.5}', f"limit must be {INTEGER}"),
        ('{"limit": 99999999999}', f"limit must be {INTEGER}"),
        ('{"limit": NaN}', f"limit must be {INTEGER}"),
        ('{"explain": "yes"}', "explain must be true or false"),
        ('{"filter": 3}', "filter must be an object"),
        ('{"filter": {"speakers": "a"}}', "filter.speakers must be a list"),
        ('{"filter": {"speakers": ["a", 3]}}', "filter.speakers[1] must be a text"),
        ('{"vector": ["x"]}', "vector[0] must be a number"),
        ('{"timeBudget": 5}', 'timeBudget must be seconds, such as "0.1s"'),
        ('{"as_of": "yesterday"}', f"as_of must be {TIME}"),
        ('{"filter": {"eventTime": {"start": ""}}}', f"filter.eventTime.start must be {TIME}"),
        ('{"profileOverrides": "x"}', "profileOverrides must be an object"),
        ('{"nope": 1}', "there is no field nope"),
        ('{"filter": {"nope": 1}}', "there is no field filter.nope"),
        ('{"query": "a", "query": "b"}', "it has a name twice"),
        (
            '{"time_budget": "1s", "timeBudget": "1s"}',
            "timeBudget cannot be set together with time_budget",
        ),
        (
            '{"filter": {"allOf": [], "all_of": []}}',
            "filter.all_of cannot be set together with allOf",
        ),
        ('{"query"', "Expecting ':' delimiter in line 1, column 9"),
        (b'{"query": "\xff"}', "it is not UTF-8"),
        ('{"a":' * 20_000, "it is nested too deeply"),
    ],
)
def test_fault_of_a_question_has_its_place(body: str | bytes, expected: str) -> None:
    assert fault(body, RetrieveRequest) == expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("3", " must be an object"),
        ("null", " must be an object"),
        ('{"segment": {"labels": {"a": 3}}}', ".segment.labels.a must be a text"),
        ('{"segment": {"labels": ["a"]}}', ".segment.labels must be an object"),
        ('{"segment": {"sensitive": 1}}', ".segment.sensitive must be true or false"),
        ('{"segment": {}, "fact": {}}', ".fact cannot be set together with segment"),
    ],
)
def test_fault_of_an_item_has_its_number(item: str, expected: str) -> None:
    body = f'{{"items": [{{"segment": {{"text": "Fine."}}}}, {item}]}}'

    assert fault(body, IngestRequest) == f"items[1]{expected}"


def test_labels_of_like_names_are_no_fault() -> None:
    body = b'{"items": [{"segment": {"text": "a", "labels": {"a_b": "1", "aB": "2"}}}]}'

    read = from_json(body, IngestRequest)

    assert isinstance(read, IngestRequest), read
    assert read.items[0].segment.labels == {"a_b": "1", "aB": "2"}


def test_unknown_field_is_no_fault_to_connect() -> None:
    body = '{"nope": 1, "limit": "x"}'

    assert fault(body, RetrieveRequest, strict=False) == f"limit must be {INTEGER}"


# ---------------------------------------------------------------- a generated client


GENERATOR = Path(__file__).parents[3] / ".venv-protoc" / "bin" / "openapi-python-client"
NAME = "generated_client"


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports what the generator writes, as users of Python have it."""
    # Without formatting, for which another tool would be needed.
    (tmp_path / "config.yaml").write_text("post_hooks: []\n")
    subprocess.run(
        [
            *(GENERATOR, "generate", "--path", OPENAPI, "--meta", "none", "--fail-on-warning"),
            *("--config", tmp_path / "config.yaml", "--output-path", tmp_path / NAME),
        ],
        check=True,
        capture_output=True,
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda module: importlib.import_module(f"{NAME}{module}")
    for name in [each for each in sys.modules if each.partition(".")[0] == NAME]:
        del sys.modules[name]


@pytest.mark.skipif(
    not GENERATOR.exists(), reason="`make unit` and `make test` install the generator"
)
async def test_client_generated_from_openapi_calls_the_service(generated: Any) -> None:
    models = generated(".models")
    service: Any = FakeRpcs(retrieval_pb.RetrieveResponse(hits=[retrieval_pb.Hit(rank=1)]))
    transport = httpx.ASGITransport(asgi_application(service))
    client = generated("").Client("http://127.0.0.1:8000", httpx_args={"transport": transport})

    found = await generated(".api.plain.retrieve").asyncio(
        client=client, body=models.RetrieveRequest(tenant="acme", query="Where is Zanzibar?")
    )

    assert [hit.rank for hit in found.hits] == [1]
    assert service.requests[0].query == "Where is Zanzibar?"
