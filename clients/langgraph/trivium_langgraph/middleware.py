"""Middleware for agents of LangChain. Needs `trivium-langgraph[middleware]`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
)
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langgraph.channels import UntrackedValue

from trivium import AsyncClient, Client, Filter
from trivium.errors import TriviumError

logger = logging.getLogger(__name__)


class RecallState(AgentState[Any]):
    """The state of an agent with the block of the current turn, which no checkpoint holds."""

    trivium_block: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]


class RecallMiddleware(AgentMiddleware[RecallState, Any, Any]):
    """Recalls once a turn what helps with the last message of the user.

    Each call of the model in the turn gets the `<memory>` block at the end of the system message.
    The messages of the agent stay as they are, so no block of an earlier turn is among them.
    If the service is down or slow, the agent goes on without a block, and a warning is logged.

    Args:
        client: With an `AsyncClient` the agent works in the event loop of that client only.
        profile: As in `Client.retrieve`.
        limit: As in `Client.retrieve`.
        filter: As in `Client.retrieve`, such as one that leaves out the session of the agent.
        timeout: As in `Client.retrieve`.
    """

    state_schema = RecallState

    def __init__(
        self,
        client: Client | AsyncClient,
        *,
        profile: str = "",
        limit: int = 0,
        filter: Filter | None = None,
        timeout: float | None = None,
    ) -> None:
        self._client = client
        self._options: dict[str, Any] = {
            "profile": profile,
            "limit": limit,
            "filter": filter,
            "timeout": timeout,
        }

    def before_agent(self, state: RecallState, runtime: Any) -> dict[str, str]:
        """Recalls for the turn."""
        del runtime
        return {"trivium_block": self._recall(state["messages"])}

    async def abefore_agent(self, state: RecallState, runtime: Any) -> dict[str, str]:
        """Recalls for the turn."""
        del runtime
        return {"trivium_block": await self._recall_async(state["messages"])}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Calls the model with the block."""
        block = _block_of(request)
        # An agent that goes on after an interrupt has lost it.
        return handler(
            _with_block(request, self._recall(request.messages) if block is None else block)
        )

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Calls the model with the block."""
        block = _block_of(request)
        if block is None:
            block = await self._recall_async(request.messages)
        return await handler(_with_block(request, block))

    def _recall(self, messages: Sequence[AnyMessage]) -> str:
        if isinstance(self._client, AsyncClient):
            raise TypeError("with an AsyncClient, call the agent with ainvoke or astream")
        question = _question(messages)
        if not question:
            return ""
        try:
            return self._client.briefing(question, **self._options)
        except TriviumError as error:
            return _without(error)

    async def _recall_async(self, messages: Sequence[AnyMessage]) -> str:
        if not isinstance(self._client, AsyncClient):
            return await asyncio.to_thread(self._recall, messages)
        question = _question(messages)
        if not question:
            return ""
        try:
            return await self._client.briefing(question, **self._options)
        except TriviumError as error:
            return _without(error)


def _question(messages: Sequence[AnyMessage]) -> str:
    """The text of the last message of the user; empty without one."""
    said = (message for message in reversed(messages) if isinstance(message, HumanMessage))
    last = next(said, None)
    return "" if last is None else last.text.strip()


def _without(error: TriviumError) -> str:
    logger.warning("the agent goes on without its memory: %s", error)
    return ""


def _block_of(request: ModelRequest[Any]) -> str | None:
    """The block of the turn; None if it was not recalled."""
    block: str | None = request.state.get("trivium_block")  # type: ignore[assignment]
    return block


def _with_block(request: ModelRequest[Any], block: str) -> ModelRequest[Any]:
    """The request with the block at the end of its system message."""
    if not block:
        return request
    before = "" if request.system_message is None else request.system_message.content
    if isinstance(before, list):
        return request.override(
            system_message=SystemMessage(content=[*before, {"type": "text", "text": block}])
        )
    content = f"{before}\n\n{block}" if before else block
    return request.override(system_message=SystemMessage(content=content))
