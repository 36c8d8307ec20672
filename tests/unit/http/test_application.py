"""What holds for all routes: hosts, other sites, and the files of pages."""

from __future__ import annotations

import re

import pytest

from serving.http.application import is_private
from serving.http.designs import DESIGNS
from serving.http.plain import PLAIN_ROUTES
from serving.http.static import FILES, FOLDER, PAGE
from serving.rpc.identity.authenticator import Authenticator
from tests.support.tracked_files import ROOT
from tests.unit.http.requesting import FakeRpcs, sent

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
