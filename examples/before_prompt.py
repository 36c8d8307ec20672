"""A hook for an assistant of the command line: prints what helps with a prompt.

    TRIVIUM_TENANT=alice python3 examples/before_prompt.py < prompt.json

For assistants that run a command before each prompt, give it JSON with `prompt` on standard input,
and show its output to the model. It never stops a prompt: whatever fails, it prints nothing, says
why on standard error, and exits with 0. It needs nothing but Python, and little of that: to import
`http.client` takes longer than an answer, and to import gRPC several times as long.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

TIMEOUT_S = 1.0
"""To connect, and to have an answer."""


def main() -> None:
    """Prints the block for the prompt on standard input."""
    try:
        # Bytes: what is no UTF-8 is no reason to fail.
        given = json.loads(sys.stdin.buffer.read().decode(errors="replace"))
        if block := recalled(given["prompt"]):
            os.write(1, f"{block}\n".encode())
    except Exception as error:
        print(f"trivium: no memory for this prompt: {error!r}", file=sys.stderr)


def recalled(prompt: str) -> str:
    """The `<memory>` block for a prompt.

    Raises:
        Exception: The service does not answer, or refuses.
    """
    settings = os.environ  # noqa: TID251 - those of the command `trivium`
    url = settings.get("TRIVIUM_HTTP", "http://127.0.0.1:8000")
    scheme, _, authority = url.rstrip("/").partition("://")
    if scheme not in ("http", "https"):
        raise ValueError(f"TRIVIUM_HTTP must be such as http://127.0.0.1:8000, is {url!r}")
    token = settings.get("TRIVIUM_TOKEN", "")
    if file := settings.get("TRIVIUM_TOKEN_FILE"):
        with open(file) as text:
            token = text.read().strip()
    is_clear = scheme != "https" and not is_on_this_machine(authority)
    accepted = settings.get("TRIVIUM_TOKEN_WITHOUT_TLS", "").lower() in ("1", "true", "yes", "on")
    if token and is_clear and not accepted:
        raise ValueError(
            f"a token is not sent to {authority} in clear text: use https in TRIVIUM_HTTP, or "
            "TRIVIUM_TOKEN_WITHOUT_TLS=1 if something on the way encrypts, such as a sidecar"
        )
    question = {
        "tenant": settings.get("TRIVIUM_TENANT", ""),
        "query": prompt,
        "time_budget": f"{TIMEOUT_S * 0.9}s",
        "time_zone": settings.get("TRIVIUM_TIME_ZONE", ""),
        "briefing": {},
    }
    status, body = post(scheme, authority, "/v1/retrieve", json.dumps(question).encode(), token)
    if status != 200:
        raise ValueError(f"status {status}: {body[:500].decode(errors='replace')}")
    return str(json.loads(body)["briefing"])


def post(scheme: str, authority: str, path: str, body: bytes, token: str) -> tuple[int, bytes]:
    """Sends JSON by HTTP/1.0, whose answers end with the connection; returns status and body.

    Raises:
        OSError: There is no answer within `TIMEOUT_S`.
        ValueError: The token cannot be sent, or the answer is not one of HTTP.
    """
    end = time.monotonic() + TIMEOUT_S
    lines = [
        f"POST {path} HTTP/1.0",
        f"host: {authority}",
        "content-type: application/json",
        f"content-length: {len(body)}",
    ]
    if token:
        if not (token.isascii() and token.isprintable()):
            raise ValueError("the token has characters that no header can have")
        lines.append(f"authorization: Bearer {token}")
    answer, request = bytearray(), "\r\n".join([*lines, "", ""]).encode() + body
    with connected(scheme, authority) as connection:
        connection.settimeout(max(0.001, end - time.monotonic()))
        connection.sendall(request)
        while part := connection.recv(65536):
            answer += part
            # Again for each part, or one byte a second would keep the prompt for ever.
            connection.settimeout(max(0.001, end - time.monotonic()))
    head, _, received = answer.partition(b"\r\n\r\n")
    version, _, status = head.partition(b" ")
    if not version.startswith(b"HTTP/1."):
        raise ValueError(f"{authority} does not answer by HTTP")
    return int(status[:3]), bytes(received)


def connected(scheme: str, authority: str) -> socket.socket:
    """A connection, over TLS for https.

    Raises:
        OSError: There is none within `TIMEOUT_S`, or the certificate is not valid.
    """
    host, port = host_and_port(authority)
    is_https = scheme == "https"
    connection = socket.create_connection((host, int(port or (443 if is_https else 80))), TIMEOUT_S)
    if not is_https:
        return connection
    import ssl

    return ssl.create_default_context().wrap_socket(connection, server_hostname=host)


def host_and_port(authority: str) -> tuple[str, str]:
    """The parts of an authority such as "127.0.0.1:8000" or "[::1]"; the port may be empty."""
    host, _, port = authority.rpartition(":")
    if not (host and port.isdigit()):
        host, port = authority, ""
    return host.strip("[]"), port


def is_on_this_machine(authority: str) -> bool:
    """Whether an authority is on loopback."""
    host, _ = host_and_port(authority)
    numbers = host.split(".")
    is_loopback = len(numbers) == 4 and numbers[0] == "127" and all(map(str.isdigit, numbers))
    return is_loopback or host in ("localhost", "::1")


if __name__ == "__main__":
    main()
