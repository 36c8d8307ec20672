"""An agent whose model is given what is remembered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from livekit.agents import Agent, ModelSettings, llm

from trivium_livekit.memory import TriviumMemory


class TriviumAgent(Agent):  # type: ignore[misc]  # LiveKit Agents is not always installed
    """Recalls in `llm_node`, so that a preemptive generation is kept.

    LiveKit discards a preemptive generation if `on_user_turn_completed` changes the context. What
    `llm_node` sends to the model is not compared.

    Args:
        memory: The memory of this conversation.
        **kwargs: For `Agent`, such as `instructions`.
    """

    def __init__(self, *, memory: TriviumMemory, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._memory = memory

    async def llm_node(
        self, chat_ctx: llm.ChatContext, tools: list[llm.Tool], model_settings: ModelSettings
    ) -> AsyncIterator[Any]:
        """Runs the model on a copy of the context, with what is remembered."""
        remembered = await self._memory.in_context(chat_ctx)
        async for chunk in Agent.default.llm_node(self, remembered, tools, model_settings):
            yield chunk
