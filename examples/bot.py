"""A bot that remembers, in text mode: recall before each answer, store after it.

    python examples/bot.py --tenant alice

Recall has 80 ms: what the service finds within it goes into the prompt; without it the bot
still answers. With speech recognition, pass each interim transcript to `Recall.heard`, and
recall takes no time. Turns are stored in the background, so that the answer does not wait.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import uuid

from trivium import AsyncClient
from trivium.conversation import Opening, Recall, one_block

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
        self._recall = Recall(memory, session=f"session-{uuid.uuid4()}")
        self._numbers = itertools.count(1)
        self._opening = Opening()

    async def warm_up(self) -> None:
        """Prepares the service, and recalls context for the start of the conversation."""
        await self._recall.warm()
        self._opening.block = await self._memory.load_context()

    async def reply(self, said: str) -> str:
        """Answers the person, with the relevant memory in the prompt."""
        number = next(self._numbers)
        memory = one_block(self._opening.for_turn(number), await self._recall.turn(said))
        prompt = "\n\n".join(filter(None, [SYSTEM_PROMPT, memory, f"{self._person}: {said}"]))
        replied = await asyncio.to_thread(answer, prompt)
        self._recall.said(self._person, said, turn=f"{number}")
        self._recall.said("Bot", replied, turn=f"{number}-reply")
        return replied

    async def finish(self) -> None:
        """Waits until all turns are stored, and says how the conversation went."""
        await self._recall.close()
        print(f"[{self._recall.counts}]")


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
