"""The server as a process: over stdio, and over streamable HTTP, with a token for each request."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.fakes.service import FakeService
from trivium.v1.retrieval_service_pb2 import Hit, RetrieveResponse
from trivium.v1.segment_pb2 import Segment
from trivium_mcp import Connection
from trivium_mcp.__main__ import check
from trivium_mcp.connection import bearer_of, from_environment

COMMAND = (sys.executable, "-m", "trivium_mcp")
ANSWER = RetrieveResponse(hits=[Hit(segment=Segment(id="t1", text="The eighth."), rank=1)])


class Addressed(Protocol):
    """A service, or a fake of one."""

    @property
    def address(self) -> str: ...


def variables(service: Addressed, **more: str) -> dict[str, str]:
    inherited = os.environ  # noqa: TID251 - for a child
    return {**inherited, "TRIVIUM_ADDRESS": service.address, **more}


async def test_over_stdio(fake_service: FakeService, tmp_path: Path) -> None:
    fake_service.will_answer("Retrieve", ANSWER)
    key = tmp_path / "key"
    key.write_text("trv_key\n")
    environment = variables(fake_service, TRIVIUM_TENANT="acme", TRIVIUM_TOKEN_FILE=str(key))
    process = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:]], env=environment)
    async with Client(process) as client:
        result = await client.call_tool("recall", {"query": "When?"})

    assert "[t1] The eighth." in str(result.content)
    assert fake_service.request().tenant == "acme"
    assert fake_service.metadata[0]["authorization"] == "Bearer trv_key"


@contextmanager
def served(service: Addressed, *options: str, **more: str) -> Iterator[str]:
    """The URL of a server over HTTP, which runs until the end of the block."""
    process = subprocess.Popen(
        [*COMMAND, "--http", "--port", "0", *options],
        env=variables(service, **more),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"running on (http://127.0.0.1:\d+)", line):
                yield f"{found[1]}/mcp"
                break
        else:
            raise AssertionError("the server did not start")
    finally:
        process.terminate()
        process.communicate(timeout=30)


async def called(url: str, token: str, tool: str, **arguments: str) -> str:
    """What a tool says to a caller with this token."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        return str((await client.call_tool(tool, arguments)).content)


async def test_tokens_and_hosts_are_those_of_each_request(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", ANSWER, ANSWER, ANSWER)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = "application/json, text/event-stream"
    misdirected = set()
    with served(fake_service, "--allowed-host", "Memory.Example") as url:
        texts = [
            await called(url, token, "recall", query="When?")
            for token in ("of-nora", "of-idris", "")
        ]
        async with httpx2.AsyncClient() as http:
            for host in ("memory.example", "memory.example:443", "127.0.0.1:1", "evil.example"):
                answer = await http.post(url, json=ping, headers={"accept": accept, "host": host})
                if answer.status_code == 421:
                    misdirected.add(host)

    assert all("[t1] The eighth." in text for text in texts)
    sent = [call.get("authorization") for call in fake_service.metadata]
    assert sent == ["Bearer of-nora", "Bearer of-idris", None]
    assert {request.tenant for request in fake_service.requests} == {""}
    assert misdirected == {"evil.example"}


async def test_token_of_a_request_needs_tls(fake_service: FakeService) -> None:
    elsewhere = {"TRIVIUM_ADDRESS": fake_service.address.replace("127.0.0.1", "0.0.0.0")}
    with served(fake_service, **elsewhere) as url:
        refused = await called(url, "of-nora", "recall", query="When?")
    with served(fake_service, **elsewhere, TRIVIUM_TOKEN_WITHOUT_TLS="1") as url:
        await called(url, "of-idris", "recall", query="When?")

    assert "TRIVIUM_TLS=1" in refused
    assert [call["authorization"] for call in fake_service.metadata] == ["Bearer of-idris"]


def test_token_of_the_process_needs_tls() -> None:
    over_stdio = argparse.Namespace(http=False)
    elsewhere = Connection(address="memory.example:9000", token="trv_key")
    with pytest.raises(ValueError, match="in clear text"):
        check(elsewhere, over_stdio)
    check(replace(elsewhere, token_without_tls=True), over_stdio)


def test_process_without_tenant_and_token_is_refused() -> None:
    over_stdio = argparse.Namespace(http=False)
    with pytest.raises(ValueError, match="TRIVIUM_TENANT"):
        check(Connection(), over_stdio)
    check(Connection(tenant="acme"), over_stdio)


def over_http(host: str) -> argparse.Namespace:
    return argparse.Namespace(http=True, host=host)


def test_a_token_of_the_process_is_not_lent_over_http() -> None:
    with pytest.raises(ValueError, match="unset it"):
        check(Connection(token="trv_key"), over_http("127.0.0.1"))


def test_memory_is_not_served_to_other_machines() -> None:
    check(Connection(tenant="acme"), over_http("127.0.0.1"))
    with pytest.raises(ValueError, match="other machines"):
        check(Connection(tenant="acme"), over_http("0.0.0.0"))


def test_unusable_settings_end_the_process_in_one_line(tmp_path: Path) -> None:
    environment = {"TRIVIUM_TOKEN_FILE": str(tmp_path / "missing")}
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("trivium-mcp: ")
    assert done.stderr.count("\n") == 1


def test_the_settings_are_those_of_the_command_line(tmp_path: Path) -> None:
    read = from_environment({"TRIVIUM_TENANT": "acme", "TRIVIUM_TLS_CA": str(tmp_path)})

    assert (read.address, read.tenant) == ("127.0.0.1:9000", "acme")
    assert read.tls is not None
    assert read.tls.ca == tmp_path
    assert from_environment({}).tls is None
    assert from_environment({"TRIVIUM_TLS": "1"}).tls is not None


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Basic abc", ""), ("", "")],
)
def test_only_a_bearer_token_is_handed_on(header: str, token: str) -> None:
    assert bearer_of({"authorization": header}) == token


def test_configurations_of_the_page_can_be_read() -> None:
    page = (Path(__file__).parents[3] / "clients/mcp/README.md").read_text()
    blocks = re.findall(r"```(json|toml)\n(.*?)```", page, re.DOTALL)
    read = [json.loads(text) if kind == "json" else tomllib.loads(text) for kind, text in blocks]

    assert len(read) == 5
    servers = [each.get("mcpServers", each.get("mcp_servers", {})) for each in read]
    commands = [each["trivium"].get("command", "-") for each in servers if each]
    assert commands == ["trivium-mcp", "trivium-mcp", "-", "-"]
