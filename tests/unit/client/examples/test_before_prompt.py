from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

HOOK = Path(__file__).parents[4] / "examples/before_prompt.py"


class Listening(ThreadingHTTPServer):
    """Answers each request with a block, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.requests: list[tuple[str, str | None, dict[str, Any]]] = []


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Listening)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, self.headers["authorization"], body))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps({"briefing": "We sailed to Goa “once”.", "hits": []}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def listening() -> Iterator[Listening]:
    with Listening() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(given: bytes, port: int, host: str = "127.0.0.1", **more: str) -> tuple[str, str]:
    """What the hook prints, and what it says of failures; it imports nothing but Python's own."""
    environment = {"TRIVIUM_HTTP": f"http://{host}:{port}", "TRIVIUM_TENANT": "acme", **more}
    command = [sys.executable, "-I", "-S", str(HOOK)]
    done = subprocess.run(command, input=given, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode(), done.stderr.decode()


def test_the_hook_prints_what_helps_with_a_prompt(listening: Listening) -> None:
    given = json.dumps({"prompt": "Where did we sail?"}).encode()

    of_alice = {"TRIVIUM_TOKEN": "trv_key", "TRIVIUM_TIME_ZONE": "Asia/Tokyo"}
    printed = run(given, listening.server_port, **of_alice)

    assert printed == ("We sailed to Goa “once”.\n", "")
    ((path, authorization, body),) = listening.requests
    assert (path, authorization) == ("/v1/retrieve", "Bearer trv_key")
    assert (body["tenant"], body["query"]) == ("acme", "Where did we sail?")
    assert body["time_zone"] == "Asia/Tokyo"


@pytest.mark.parametrize("given", [b"", b"{", b"null", b"[]", b"{}", b'{"prompt": ', b"\xff\xfe"])
def test_bad_input_prints_nothing_and_says_so(given: bytes) -> None:
    out, err = run(given, 1)

    assert out == ""
    assert err.startswith("trivium: no memory for this prompt")
    assert err.count("\n") == 1


@pytest.mark.parametrize("status", [0, 401, 503])
def test_prompt_goes_on_without_the_service(listening: Listening, status: int) -> None:
    listening.status = status
    out, err = run(b'{"prompt": "x"}', listening.server_port if status else 1)

    assert out == ""
    assert (str(status) if status else "refused") in err


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not answer by HTTP"),
        (b"", "does not answer by HTTP"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n<h1>proxy</h1>", "status 502: <h1>proxy</h1>"),
        (b'HTTP/1.1 200 OK\r\n\r\n{"briefing": "cut', "JSONDecodeError"),
    ],
)
def test_answer_of_something_else_is_said(answer: bytes, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_once() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=answer_once)
        thread.start()
        out, err = run(b'{"prompt": "x"}', server.getsockname()[1])
        thread.join()

    assert out == ""
    assert why in err


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://127.0.0.1", ""])
def test_address_without_its_scheme_is_refused(url: str) -> None:
    _, err = run(b'{"prompt": "x"}', 1, TRIVIUM_HTTP=url)

    assert "TRIVIUM_HTTP must be such as http://" in err


def test_hook_imports_neither_http_client_nor_ssl(listening: Listening) -> None:
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(HOOK)]
    environment = {"TRIVIUM_HTTP": f"http://127.0.0.1:{listening.server_port}"}
    done = subprocess.run(
        command, input=b'{"prompt": "x"}', env=environment, capture_output=True, check=True
    )

    imported = {line.rpartition(b"|")[2].strip() for line in done.stderr.splitlines()}
    assert done.stdout
    assert b"socket" in imported
    assert not imported & {b"http.client", b"email.parser", b"ssl"}


def test_hook_sends_no_token_in_clear_text(listening: Listening) -> None:
    # A name that is not of loopback, and yet leads here.
    given, port = b'{"prompt": "x"}', listening.server_port
    out, err = run(given, port, host="0.0.0.0", TRIVIUM_TOKEN="trv_key")

    assert (out, listening.requests) == ("", [])
    assert "https" in err
    run(given, port, host="0.0.0.0", TRIVIUM_TOKEN="trv_key", TRIVIUM_TOKEN_WITHOUT_TLS="1")
    assert listening.requests[0][1] == "Bearer trv_key"
