"""Trivium as the server and the knowledge base of a Vapi assistant: an ASGI application.

The messages are those of https://docs.vapi.ai/server-url/events and of
https://docs.vapi.ai/knowledge-base/implement-custom-endpoint.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from trivium import AsyncClient, Filter, Segment, TriviumError

__all__ = ["VapiMemory"]

logger = logging.getLogger(__name__)
NOTHING = "Nothing about that is remembered at the moment."
TIMEOUT_S = 0.5
MAX_BODY_BYTES = 4 << 20
Message = Mapping[str, Any]


class VapiMemory:
    """Answers what Vapi asks during a call, and stores the turns of a call when it has ended.

    An answer is one `<memory>` block, without what was said in this call. If the service is down or
    slow, the call goes on without memory. A tool of the assistant has the argument `question`.

    Args:
        client: In the event loop of the application.
        secret: That of the server in Vapi, which sends it as `x-vapi-secret`.
        assistant_id: The assistant of incoming calls, whose prompt may have `{{memory}}`.
        tenant_of: The tenant of a message, such as by its `customer`; None for the client's.
        user: The speaker of what the caller says; `bot` that of what the assistant says.
        timeout: For an answer, in seconds.
        **options: As in `AsyncClient.briefing`, such as `filter`, `limit` and `profile`.

    Raises:
        ValueError: The secret is empty: anybody could read the memory.
    """

    def __init__(
        self,
        client: AsyncClient,
        secret: str,
        *,
        assistant_id: str = "",
        tenant_of: Callable[[Message], str] | None = None,
        user: str = "User",
        bot: str = "Assistant",
        timeout: float = TIMEOUT_S,
        **options: Any,
    ) -> None:
        if not secret:
            raise ValueError("a secret is required, or anybody could read the memory")
        self._client = client
        self._secret = secret.encode()
        self._assistant_id = assistant_id
        self._tenant_of = tenant_of
        self._speakers = {"user": user, "bot": bot}
        self._filter: Filter = options.pop("filter", Filter())
        self._options = {**options, "timeout": timeout}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers a request by HTTP."""
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is supported")  # as servers expect
        status, answer = await self._answered(scope, receive)
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async def _answered(self, scope: Any, receive: Any) -> tuple[int, dict[str, Any]]:
        given = dict(scope["headers"]).get(b"x-vapi-secret", b"")
        if not hmac.compare_digest(given, self._secret):
            return 401, {"error": "send the secret of the server"}
        try:
            message = json.loads(await _body(receive))["message"]
            of = self._tenant_of
            client = self._client.for_tenant(of(message)) if of else self._client
            return 200, await self._answer(client, message)
        except TriviumError as error:  # of the end of a call, which Vapi sends again
            return 503, {"error": f"the call is not stored: {error}"}
        except (ValueError, LookupError, TypeError, AttributeError):
            return 400, {"error": "is no message of Vapi"}

    async def _answer(self, client: AsyncClient, message: Message) -> dict[str, Any]:
        session = str(message.get("call", {}).get("id", ""))
        match message["type"]:
            case "assistant-request" if self._assistant_id:
                block = await client.load_context(filter=self._filter, **self._options)
                overrides = {"variableValues": {"memory": block}}
                return {"assistantId": self._assistant_id, "assistantOverrides": overrides}
            case "knowledge-base-request":
                said = [each["content"] for each in message["messages"] if each["role"] == "user"]
                block = await self._recalled(client, session, said[-1]) if said else ""
                return {"documents": [{"content": block, "similarity": 1}] if block else []}
            case "tool-calls":
                calls = (self._called(client, session, each) for each in message["toolCallList"])
                return {"results": await asyncio.gather(*calls)}
            case "end-of-call-report":
                await client.ingest(self._turns(session, message["artifact"]["messages"]))
        return {}

    async def _called(self, client: AsyncClient, session: str, call: Message) -> dict[str, str]:
        """The result of a tool call, which must be one line."""
        given = call.get("function", call)["arguments"]
        question = (json.loads(given) if isinstance(given, str) else given)["question"]
        block = await self._recalled(client, session, question) or NOTHING
        return {"toolCallId": call["id"], "result": " ".join(block.splitlines())}

    async def _recalled(self, client: AsyncClient, session: str, question: str) -> str:
        """The block, without what was said in this call; empty if the service fails."""
        given = self._filter.none_of
        none_of = replace(given, sessions=[*given.sessions, *([session] if session else [])])
        filter = replace(self._filter, none_of=none_of)
        try:
            return await client.briefing(question, filter=filter, **self._options)
        except (TriviumError, ValueError) as error:
            logger.warning("the call goes on without its memory: %s", error)
            return ""

    def _turns(self, session: str, messages: list[Message]) -> list[Segment]:
        return [
            Segment(
                id=f"{session}/{number}",
                text=each["message"],
                speaker=self._speakers[each["role"]],
                session=session,
                event_time=datetime.fromtimestamp(each["time"] / 1000, UTC),
            )
            for number, each in enumerate(messages)
            if each["role"] in self._speakers and each["message"].strip()
        ]


async def _body(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        part = await receive()
        body, more = body + part.get("body", b""), part.get("more_body", False)
        if len(body) > MAX_BODY_BYTES:
            raise ValueError("is too large")
    return body
