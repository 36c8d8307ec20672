"""Recalls before an answer, and stores each exchange after it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from livekit.agents import (
    AgentSession,
    ConversationItemAddedEvent,
    UserInputTranscribedEvent,
    llm,
)

from trivium import AsyncClient, Segment, TriviumError
from trivium.conversation import Opening, Recall, TurnOutcome, words_of

logger = logging.getLogger(__name__)

RECALL_TIMEOUT_S = 0.08
"""An acceptable pause before an answer."""
WRITE_TIMEOUT_S = 5.0


class StoreOutcome(StrEnum):
    """How storing an exchange ended; `TurnOutcome` says it of a recall."""

    STORED = "stored"
    NOT_STORED = "not stored"


class TriviumMemory:
    """The memory of one conversation.

    It searches for each interim transcript, so that the memory is there when the turn ends.
    `outcomes` counts its calls. A memory that is late or down delays an answer by `timeout` at
    most.

    Args:
        client: A client of the user's tenant; whoever opened it closes it.
        session: The id of this conversation; turns are stored as `{session}:{id of the item}`.
        user: The name of the user, as the speaker of what is stored.
        bot: The name of the agent.
        timeout: For a recall, in seconds.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        session: str,
        user: str = "User",
        bot: str = "Bot",
        timeout: float = RECALL_TIMEOUT_S,
    ) -> None:
        self.outcomes: Counter[TurnOutcome | StoreOutcome] = Counter()
        self._client = client
        self._session = session
        self._speakers = {"user": user, "assistant": bot}
        self._recall = Recall(client, session=session, budget=timeout)
        self._transcripts: list[str] = []
        self._asked = ""
        self._opening = Opening()
        self._recalled: tuple[object, str] = (None, "")
        self._exchange: list[Segment] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def attach(self, session: AgentSession) -> None:
        """Warms the service, recalls what is known, and hears and stores a session from now on."""
        session.on("user_input_transcribed", self._hear)
        session.on("conversation_item_added", self._keep)
        self._start(self._prepare())

    async def aclose(self) -> None:
        """Stores what is left, and waits for it."""
        self._store_exchange()
        await asyncio.gather(*self._tasks)
        await self._recall.close()

    async def in_context(self, chat_ctx: llm.ChatContext) -> llm.ChatContext:
        """A copy of the context, with what is remembered before the last message of the user.

        The first turn has the start of the conversation, too. The same context, if nothing is
        remembered. Never raises an error of the memory.
        """
        place = _last_of_user(chat_ctx.items)
        said = (chat_ctx.items[place].text_content or "") if place is not None else ""
        turn = (sum(map(_is_of_user, chat_ctx.items)), said)
        blocks = [self._opening.for_turn(turn), await self._block(turn)]
        block = "\n".join(filter(None, blocks))
        if not block:
            return chat_ctx
        with_memory = chat_ctx.copy()
        message = llm.ChatMessage(role="developer", content=[block])
        end = len(with_memory.items)
        with_memory.items.insert(end if place is None else place, message)
        return with_memory

    async def _prepare(self) -> None:
        await self._recall.warm()
        self._opening.block = await self._client.load_context()

    def _hear(self, event: UserInputTranscribedEvent) -> None:
        """Searches while the user speaks, unless that was done for a preemptive generation."""
        so_far = " ".join([*self._transcripts, event.transcript])
        if event.is_final:
            self._transcripts.append(event.transcript)
        if words_of(so_far) != self._asked:
            self._recall.heard(so_far)

    async def _block(self, turn: tuple[int, str]) -> str:
        """What is remembered about this turn.

        It is recalled once, although the turn may be generated several times: preemptively, again
        at its end, and after each tool.
        """
        said = turn[1]
        if not said.strip():
            return ""
        if self._recalled[0] != turn:
            self._asked = words_of(said)
            end = await self._recall.end_turn(said)
            self.outcomes[end.outcome] += 1
            if end.outcome in (TurnOutcome.LATE, TurnOutcome.FAILED):
                return ""
            self._recalled = (turn, end.block)
        return self._recalled[1]

    def _keep(self, event: ConversationItemAddedEvent) -> None:
        """Keeps a message that became part of the history, which a speculative one never does."""
        item = event.item
        if not isinstance(item, llm.ChatMessage) or item.role not in self._speakers:
            return
        if item.role == "user":
            # What is heard from now on is of another turn.
            self._transcripts, self._asked = [], ""
        if text := (item.text_content or "").strip():
            turn = Segment(
                id=f"{self._session}:{item.id}",
                text=text,
                speaker=self._speakers[item.role],
                session=self._session,
                event_time=datetime.fromtimestamp(item.created_at, UTC),
            )
            self._exchange.append(turn)
        if item.role == "assistant":
            self._store_exchange()

    def _store_exchange(self) -> None:
        """Stores what was said since the last time; not earlier, or a turn would recall itself."""
        if self._exchange:
            self._start(self._store(self._exchange))
            self._exchange = []

    async def _store(self, turns: Sequence[Segment]) -> None:
        try:
            rejected = (await self._client.ingest(turns, timeout=WRITE_TIMEOUT_S)).rejected
            outcome = StoreOutcome.NOT_STORED if rejected else StoreOutcome.STORED
        except (TriviumError, ValueError) as error:
            logger.warning("turns were not stored", extra={"reason": str(error)})
            outcome = StoreOutcome.NOT_STORED
        self.outcomes[outcome] += 1

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        # The event loop has only weak references to tasks.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_of_user(item: object) -> bool:
    return isinstance(item, llm.ChatMessage) and item.role == "user"


def _last_of_user(items: Sequence[object]) -> int | None:
    """The place of the last message of the user; None if there is none."""
    return next((place for place in reversed(range(len(items))) if _is_of_user(items[place])), None)
