"""Recalls before an answer, and stores each exchange after it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from livekit.agents import (
    AgentSession,
    ConversationItemAddedEvent,
    UserInputTranscribedEvent,
    llm,
)

from trivium import AsyncClient, Filter
from trivium.conversation import (
    BUDGET_S,
    Counts,
    Opening,
    Recall,
    TurnOutcome,
    one_block,
    words_of,
)


class TriviumMemory:
    """The memory of one conversation.

    It searches for each interim transcript, so that the memory is there when the turn ends.
    A memory that is late or down delays an answer by `budget` at most. What is said while it is
    down is kept, and stored when it is back.

    Args:
        client: A client of the user's tenant; whoever opened it closes it.
        session: The name of this conversation; by default a new one. A turn is stored as
            "session/id of the item", and LiveKit gives each item an id of its own.
        user: The name of the user, as the speaker of what is stored.
        bot: The name of the agent.
        budget: How long an answer may wait for a recall, in seconds.
        profile: As in `AsyncClient.retrieve`, for the recall of a turn.
        limit: As in `AsyncClient.retrieve`, for the recall of a turn.
        filter: As in `AsyncClient.retrieve`, for the start of the conversation, too.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        session: str = "",
        user: str = "User",
        bot: str = "Bot",
        budget: float = BUDGET_S,
        profile: str = "",
        limit: int = 0,
        filter: Filter | None = None,
    ) -> None:
        self._client = client
        self._filter = filter
        self._speakers = {"user": user, "assistant": bot}
        self._recall = Recall(
            client,
            session=session,
            budget=budget,
            profile=profile,
            limit=limit,
            filter=filter,
        )
        self._transcripts: list[str] = []
        self._asked = ""
        self._opening = Opening()
        self._recalled: tuple[object, str] = (None, "")
        self._exchange: list[llm.ChatMessage] = []
        self._preparing: asyncio.Task[None] | None = None

    @property
    def counts(self) -> Counts:
        """The turns and the writes by outcome."""
        return self._recall.counts

    def attach(self, session: AgentSession) -> None:
        """Warms the service, recalls what is known, and hears and stores a session from now on."""
        session.on("user_input_transcribed", self._hear)
        session.on("conversation_item_added", self._keep)
        self._preparing = asyncio.create_task(self._prepare())

    async def aclose(self) -> None:
        """Stores what is left, and waits for it."""
        self._store_exchange()
        if self._preparing is not None:
            await self._preparing
        await self._recall.close()

    async def in_context(self, chat_ctx: llm.ChatContext) -> llm.ChatContext:
        """A copy of the context, with what is remembered before the last message of the user.

        The first turn has the start of the conversation, too. The same context, if nothing is
        remembered. Never raises an error of the memory.
        """
        place = _last_of_user(chat_ctx.items)
        said = (chat_ctx.items[place].text_content or "") if place is not None else ""
        turn = (sum(map(_is_of_user, chat_ctx.items)), said)
        block = one_block(self._opening.for_turn(turn), await self._block(turn))
        if not block:
            return chat_ctx
        with_memory = chat_ctx.copy()
        message = llm.ChatMessage(role="developer", content=[block])
        end = len(with_memory.items)
        with_memory.items.insert(end if place is None else place, message)
        return with_memory

    async def _prepare(self) -> None:
        await self._recall.warm()
        self._opening.block = await self._client.load_context(filter=self._filter)

    def _hear(self, event: UserInputTranscribedEvent) -> None:
        """Searches while the user speaks, unless that was done for a preemptive generation."""
        so_far = " ".join([*self._transcripts, event.transcript])
        if event.is_final:
            self._transcripts.append(event.transcript)
        if words_of(so_far) != self._asked:
            self._recall.heard(so_far)

    async def _block(self, turn: tuple[int, str]) -> str:
        """The recalled block for this turn.

        It is recalled once, although the turn may be generated several times: preemptively, again
        at its end, and after each tool.
        """
        said = turn[1]
        if not said.strip():
            return ""
        if self._recalled[0] != turn:
            self._asked = words_of(said)
            end = await self._recall.end_turn(said)
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
        if (item.text_content or "").strip():
            self._exchange.append(item)
        if item.role == "assistant":
            self._store_exchange()

    def _store_exchange(self) -> None:
        """Stores what was said since the last time: while the agent speaks, nobody waits."""
        for item in self._exchange:
            self._recall.said(
                self._speakers[item.role],
                (item.text_content or "").strip(),
                turn=item.id,
                event_time=datetime.fromtimestamp(item.created_at, UTC),
            )
        self._exchange = []


def _is_of_user(item: object) -> bool:
    return isinstance(item, llm.ChatMessage) and item.role == "user"


def _last_of_user(items: Sequence[object]) -> int | None:
    """The place of the last message of the user; None if there is none."""
    return next((place for place in reversed(range(len(items))) if _is_of_user(items[place])), None)
