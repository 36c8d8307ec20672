"""A bot that remembers, in text mode: recall before each answer, store after it.

    python examples/bot.py --tenant alice

Recall has a timeout of 80 ms: what the service finds within it goes into the prompt;
without it the bot still answers. Turns are stored in the background, so that the
answer does not wait for them.
"""

from __future__ import annotations

import argparse
import asyncio
import uuid
from datetime import UTC, datetime

from trivium import AsyncClient, Segment, TriviumError

RECALL_TIMEOUT_S = 0.08
"""An acceptable pause before an answer."""

SYSTEM_PROMPT = "You are warm, brief, and honest about what you do not know."


def answer(prompt: str) -> str:
    """Replace this with a call of your language model. It only prints the prompt."""
    print(f"--- to the model ---\n{prompt}\n--------------------")
    return "I see."


class Bot:
    """One conversation of a person with the bot."""

    def __init__(self, memory: AsyncClient, person: str) -> None:
        self._memory = memory
        self._person = person
        self._session = f"session-{uuid.uuid4()}"
        self._known_at_start = ""
        self._storing: set[asyncio.Task[None]] = set()

    async def warm_up(self) -> None:
        """Connects, and recalls context for the start of the conversation."""
        self._known_at_start = await self._memory.load_context()

    async def reply(self, said: str) -> str:
        """Answers the person, with the relevant memory in the prompt."""
        memory = await self._recall(said) or self._known_at_start
        prompt = "\n\n".join(filter(None, [SYSTEM_PROMPT, memory, f"{self._person}: {said}"]))
        replied = await asyncio.to_thread(answer, prompt)
        self._store([self._turn(self._person, said), self._turn("Bot", replied)])
        return replied

    async def finish(self) -> None:
        """Waits until all turns are stored."""
        await asyncio.gather(*self._storing)

    async def _recall(self, said: str) -> str:
        try:
            return await self._memory.briefing(said, timeout=RECALL_TIMEOUT_S)
        except TriviumError as error:
            print(f"[no memory: {error}]")
            return ""

    def _turn(self, speaker: str, said: str) -> Segment:
        return Segment(
            id=str(uuid.uuid4()),
            text=said,
            speaker=speaker,
            session=self._session,
            event_time=datetime.now(UTC),
        )

    def _store(self, turns: list[Segment]) -> None:
        task = asyncio.create_task(self._ingest(turns))
        # The event loop has only weak references to tasks.
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)

    async def _ingest(self, turns: list[Segment]) -> None:
        try:
            await self._memory.ingest(turns)
        except TriviumError as error:
            print(f"[not stored: {error}]")


async def converse(address: str, tenant: str, person: str) -> None:
    """Runs the conversation until the input is empty."""
    async with AsyncClient(address, tenant=tenant) as memory:
        bot = Bot(memory, person)
        await bot.warm_up()
        try:
            while said := (await asyncio.to_thread(input, f"{person}: ")).strip():
                print(f"Bot: {await bot.reply(said)}\n")
        except EOFError:
            print()
        finally:
            await bot.finish()


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="A bot that remembers.")
    parser.add_argument("--address", default="127.0.0.1:9000")
    parser.add_argument("--tenant", default="sample")
    parser.add_argument("--person", default="Nora")
    given = parser.parse_args()
    asyncio.run(converse(given.address, given.tenant, given.person))


if __name__ == "__main__":
    main()
