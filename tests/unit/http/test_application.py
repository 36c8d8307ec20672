"""What holds for all routes: hosts, other sites, and the files of pages."""

from __future__ import annotations

import re

import pytest

from serving.http.application import is_private
from serving.http.designs import DESIGNS
from serving.http.plain import PLAIN_ROUTES
from serving.http.static import FILES, FOLDER, PAGE
from serving.rpc.identity.access import Access
from tests.support.tracked_files import ROOT
from tests.unit.http.requesting import FakeRpcs, application, requested

ASKED = {"tenant": "acme", "query": "Where is Zanzibar?"}
SITE = {"origin": "https://app.example"}


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("10.1.2.3", True),
        ("localhost", True),
        ("trivium", True),
        ("Trivium.Default.SVC.cluster.local.", True),
        ("trivium.internal", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("notlocal", True),
        ("evil.notlocal", False),
    ],
)
def test_host_is_private_as_its_name_says(host: str, private: bool) -> None:
    assert is_private(host) is private


async def test_open_service_refuses_public_host_names() -> None:
    service = FakeRpcs()

    answer = await requested(
        application(service), "POST", "/v1/retrieve", json=ASKED, base_url="http://evil.example"
    )

    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    assert service.requests == []


async def test_service_with_keys_may_have_a_public_name() -> None:
    service = FakeRpcs()
    service.access = Access(keys=lambda text: pytest.fail(text))

    answer = await requested(
        application(service), "POST", "/v1/retrieve", json=ASKED, base_url="http://my.example"
    )

    assert answer.status_code == 401


async def test_other_sites_may_not_read_answers_by_default() -> None:
    app = application(FakeRpcs())

    preflight = await requested(
        app, "OPTIONS", "/v1/retrieve", headers={**SITE, "access-control-request-method": "POST"}
    )
    answer = await requested(app, "POST", "/v1/retrieve", json=ASKED, headers=SITE)

    assert preflight.status_code == 405
    for each in (preflight, answer):
        assert not [name for name in each.headers if name.startswith("access-control")]


async def test_configured_site_alone_may_read_answers() -> None:
    app = application(FakeRpcs(), cors_origins=["https://app.example"])

    ours = await requested(app, "POST", "/v1/retrieve", json=ASKED, headers=SITE)
    other = await requested(
        app, "POST", "/v1/retrieve", json=ASKED, headers={"origin": "https://evil.example"}
    )

    assert ours.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-origin" not in other.headers


async def test_preflight_of_another_site_is_an_invalid_argument() -> None:
    app = application(FakeRpcs(), cors_origins=["https://app.example"])
    asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}

    answer = await requested(app, "OPTIONS", "/v1/retrieve", headers=asked)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", [*FILES, *PAGE])
async def test_files_are_served_under_a_strict_policy(path: str) -> None:
    answer = await requested(application(FakeRpcs(), ui=True), "GET", path)

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


async def test_page_is_served_only_if_it_is_set() -> None:
    assert (await requested(application(FakeRpcs()), "GET", "/ui")).status_code == 404


async def test_page_knows_the_ports_that_it_names() -> None:
    app = application(FakeRpcs(), ui=True, grpc_port=9001, dashboard_port=8265)

    page = await requested(app, "GET", "/ui")

    assert '<meta name="grpc-port" content="9001">' in page.text
    assert '<meta name="dashboard-port" content="8265">' in page.text


def test_files_of_pages_name_no_other_host() -> None:
    texts = {path: (FOLDER / name).read_text() for path, name in {**FILES, **PAGE}.items()}
    links = {"https://connectrpc.com/docs/protocol", "http://www.w3.org/2000/svg"}

    for path, text in texts.items():
        if path != "/openapi.json":
            assert set(re.findall(r"https?://[\w./-]+", text)) <= links, path
            assert "innerHTML" not in text or "vendor" in path
