"""HTTP as users reach it: through HAProxy, with the commands of the pages."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from bench.speed import http as benchmark
from tests.fixtures.service import Service
from tests.support.tracked_files import ROOT

JSON = {"content-type": "application/json"}
RETRIEVE = "/trivium.v1.RetrievalService/Retrieve"


def curl(service: Service, command: Sequence[str]) -> httpx.Response:
    """Sends what the command of a page would send to the service of the test."""
    words, headers, body, verb = list(command[1:]), {}, None, None
    url = ""
    while words:
        match words.pop(0):
            case "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            case "-d":
                body = words.pop(0)
            case "-X":
                verb = words.pop(0)
            case other:
                url = other.replace("localhost:8000", service.http)
    method = verb or ("GET" if body is None else "POST")
    return httpx.request(method, url, headers=headers, content=body, timeout=30)


def commands(page: str) -> list[list[str]]:
    blocks = re.findall(r"^```\n(curl \"?localhost.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    lines = re.split(r"^(?=curl )", "".join(blocks), flags=re.M)
    return [shlex.split(line) for line in lines if line.strip()]


def test_readme_commands_store_two_turns_and_get_a_block(service: Service) -> None:
    store, ask = commands("README.md")

    stored = curl(service, store).json()
    found = curl(service, ask).json()

    assert {each["state"] for each in stored["outcomes"]} <= {
        "ITEM_STATE_CREATED",
        "ITEM_STATE_UNCHANGED",
    }
    line = r'\n- \w{3} \d+ \w+ \d{4}, Mara said: "We moved to Lisbon in May\."\n'
    assert re.search(line, found["context"])
    assert found["context"].startswith("<memory>")


@pytest.mark.parametrize("page", ["http", "administration", "lifetime", "describe"])
def test_commands_on_pages_are_answered(service: Service, page: str) -> None:
    for command in commands(f"docs/{page}.md"):
        answer = curl(service, command)

        assert answer.status_code == 200, (command, answer.text)


def test_http_and_grpc_give_equal_answers(service: Service) -> None:
    tenant = "http-and-grpc"
    segment = {"id": "t1", "speaker": "Mara", "text": "The keys are under the mat."}
    written = httpx.post(
        f"{service.http}/v1/ingest", json={"tenant": tenant, "items": [{"segment": segment}]}
    ).json()
    token = written["consistency_token"]

    answer = httpx.post(
        service.http + RETRIEVE,
        json={"tenant": tenant, "query": "Where are the keys?", "consistencyToken": token},
        timeout=30,
    ).json()

    with service.client(tenant) as memory:
        hits = memory.retrieve("Where are the keys?", consistency_token=token).hits
    assert [(each["segment"]["id"], each["score"]) for each in answer["hits"]] == [
        (hit.id, pytest.approx(hit.score)) for hit in hits
    ]


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        ({"content": b"{}", "headers": JSON}, 400, "invalid_argument"),
        ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, "invalid_argument"),
        ({"json": {"tenant": "x", "query": "y" * 5_000_000}}, 413, "resource_exhausted"),
        ({"content": b"{}", "headers": {**JSON, "host": "evil.example"}}, 403, "permission_denied"),
    ],
)
def test_refusals_are_errors_of_connect(
    service: Service, request_: dict[str, Any], status: int, code: str
) -> None:
    answer = httpx.post(f"{service.http}/v1/retrieve", **request_)

    assert (answer.status_code, json.loads(answer.text)["code"]) == (status, code)


def test_benchmark_of_http_measures_each_protocol(service: Service) -> None:
    addresses = ["--address", service.address, "--http", service.http]

    done = CliRunner().invoke(
        benchmark.main, [*addresses, "--tenant", "the-bench", "--calls", "10"]
    )

    assert done.exit_code == 0, done.output
    for protocol in ("gRPC", "HTTP, JSON", "HTTP, binary"):
        assert done.output.count(f"  {protocol}  ") == 2
