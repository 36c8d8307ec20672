"""An agent in text mode, without a room and without keys of other services.

    python examples/livekit_agent.py --tenant alice

Each line that you type is a turn. Replace `Model` by a model of LiveKit, and give the session STT,
TTS and a room.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import uuid
from typing import Any

from livekit.agents import AgentSession, llm
from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS

from trivium import AsyncClient
from trivium_livekit import TriviumAgent, TriviumMemory


class Model(llm.LLM):  # type: ignore[misc]
    """Stands for a language model: prints what it would be sent, and says "I see."."""

    def chat(self, *, chat_ctx: llm.ChatContext, **options: Any) -> llm.LLMStream:
        """Answers a context."""
        for item in chat_ctx.items:
            if item.type == "message":
                print(f"  {item.role}: {item.text_content}")
        tools = options.get("tools") or []
        return Answer(
            self, chat_ctx=chat_ctx, tools=tools, conn_options=DEFAULT_API_CONNECT_OPTIONS
        )


class Answer(llm.LLMStream):  # type: ignore[misc]
    """The answer, in one piece."""

    async def _run(self) -> None:
        delta = llm.ChoiceDelta(role="assistant", content="I see.")
        self._event_ch.send_nowait(llm.ChatChunk(id="1", delta=delta))


async def converse(address: str, tenant: str, user: str) -> None:
    """Runs the conversation until the input ends."""
    async with AsyncClient(address, tenant=tenant) as client:
        memory = TriviumMemory(client, session=f"session-{uuid.uuid4()}", user=user)
        session: AgentSession[None] = AgentSession(
            llm=Model(), vad=None, turn_handling={"turn_detection": None}
        )
        memory.attach(session)
        await session.start(TriviumAgent(memory=memory, instructions="You are warm and brief."))
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            await session.run(user_input=line)
        await session.aclose()
        await memory.aclose()
        print("memory:", memory.counts)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="An agent with a memory, in text mode.")
    parser.add_argument("--address", default="127.0.0.1:9000")
    parser.add_argument("--tenant", default="sample")
    parser.add_argument("--user", default="Nora")
    given = parser.parse_args()
    asyncio.run(converse(given.address, given.tenant, given.user))


if __name__ == "__main__":
    main()
