"""A hook for an assistant of the command line: prints what helps with a prompt.

    TRIVIUM_TENANT=alice python3 before_prompt.py < prompt.json

For assistants that run a command before each prompt, give it JSON with `prompt` on standard input,
and show its output to the model. It never stops a prompt: whatever fails, it prints nothing, says
why on standard error, and exits with 0. It needs nothing but Python, as an import of gRPC alone
takes longer than an answer.
"""

from __future__ import annotations

import json
import os
import sys
from http.client import HTTPConnection, HTTPSConnection

TIMEOUT_S = 1.0


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
        "briefing": {},
    }
    connect = HTTPSConnection if scheme == "https" else HTTPConnection
    connection = connect(authority, timeout=TIMEOUT_S)
    headers = {"content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    connection.request("POST", "/v1/retrieve", json.dumps(question), headers)
    response = connection.getresponse()
    body = json.load(response)
    if response.status != 200:
        raise ValueError(f"status {response.status}: {body.get('message', body)}")
    return str(body["briefing"])


def is_on_this_machine(authority: str) -> bool:
    """Whether an authority such as "127.0.0.1:8000" is on loopback."""
    host = authority.rpartition(":")[0] if authority.rpartition(":")[2].isdigit() else authority
    numbers = host.split(".")
    is_loopback = len(numbers) == 4 and numbers[0] == "127" and all(map(str.isdigit, numbers))
    return is_loopback or host in ("localhost", "[::1]")


if __name__ == "__main__":
    main()
