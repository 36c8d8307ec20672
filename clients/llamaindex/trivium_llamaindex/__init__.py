"""Trivium as a memory and a retriever of LlamaIndex."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from typing import Any, Self

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory.types import BaseMemory
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from trivium import Client, Exclusion, Filter, Hit, Segment, TriviumError

__all__ = ["TriviumMemory", "TriviumRetriever"]

logger = logging.getLogger(__name__)

SPEAKERS = {MessageRole.USER: "User", MessageRole.ASSISTANT: "Assistant"}


class TriviumMemory(BaseMemory):  # type: ignore[misc]  # LlamaIndex is not always installed
    """The history of a conversation, with what earlier ones had that helps with its last question.

    `get` returns the history; before its last message of the user stands a system message with the
    `<memory>` block. `put` stores what user and assistant say, and both never raise because the
    service is down. The methods for asyncio wait in threads.

    Args:
        client: A client of the user's tenant; whoever opened it closes it.
        session: The name of this conversation; by default a new one. It is left out of the block.
        profile: As in `Client.retrieve`.
        limit: As in `Client.retrieve`.
        filter: As in `Client.retrieve`.
        timeout: For a recall, in seconds.
    """

    _client: Client = PrivateAttr()
    _session: str = PrivateAttr()
    _options: dict[str, Any] = PrivateAttr()
    _messages: list[ChatMessage] = PrivateAttr(default_factory=list)

    def __init__(
        self,
        client: Client,
        *,
        session: str = "",
        profile: str = "",
        limit: int = 0,
        filter: Filter | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._session = session or f"chat-{uuid.uuid4()}"
        self._options = {
            "profile": profile,
            "limit": limit,
            "filter": filter or Filter(none_of=Exclusion(sessions=[self._session])),
            "timeout": timeout,
        }

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> Self:
        """As the constructor."""
        return cls(**kwargs)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:
        """The history, with the block for `input`, or for the last message of the user."""
        places = [n for n, each in enumerate(self._messages) if each.role == MessageRole.USER]
        place = places[-1] if places else len(self._messages)
        asked = input or (self._messages[place].content if places else "") or ""
        block = self._recall(asked)
        if not block:
            return self.get_all()
        message = ChatMessage(role=MessageRole.SYSTEM, content=block)
        return [*self._messages[:place], message, *self._messages[place:]]

    def get_all(self) -> list[ChatMessage]:
        """The history without a block."""
        return list(self._messages)

    def put(self, message: ChatMessage) -> None:
        """Adds a message; what user and assistant say is stored."""
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Adds messages; what user and assistant say is stored."""
        self._messages += messages
        turns = [
            Segment(
                id=f"{self._session}/{uuid.uuid4()}",
                text=each.content,
                speaker=SPEAKERS[each.role],
                session=self._session,
            )
            for each in messages
            if each.role in SPEAKERS and (each.content or "").strip()
        ]
        self._store(turns)

    def set(self, messages: list[ChatMessage]) -> None:
        """Replaces the history. Agents set it, so messages that are new to it are stored."""
        known, self._messages = self._messages, []
        seen = [each.model_dump_json() for each in known]
        new = [each for each in messages if each.model_dump_json() not in seen]
        self.put_messages(new)
        self._messages = list(messages)

    def reset(self) -> None:
        """Begins the history anew; what is stored stays."""
        self._messages = []

    def _recall(self, question: str) -> str:
        if not question.strip():
            return ""
        try:
            return self._client.briefing(question, **self._options)
        except (TriviumError, ValueError) as error:
            logger.warning("the agent goes on without its memory: %s", error)
            return ""

    def _store(self, turns: Sequence[Segment]) -> None:
        if not turns:
            return
        try:
            self._client.ingest(turns)
        except (TriviumError, ValueError) as error:
            logger.warning("%d turns are not stored: %s", len(turns), error)


class TriviumRetriever(BaseRetriever):  # type: ignore[misc]  # as above
    """Retrieves segments and facts as nodes, best first.

    Raises a `TriviumError` if the service does not answer. `aretrieve` waits in a thread.

    Args:
        client: A client of the tenant.
        **options: As in `Client.retrieve`, such as `limit`, `profile`, `filter` and `timeout`.
    """

    def __init__(self, client: Client, **options: Any) -> None:
        super().__init__()
        self._client = client
        self._options = options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._client.retrieve(query_bundle.query_str, **self._options)
        return [NodeWithScore(node=_node(hit), score=hit.score) for hit in found.hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: Hit) -> TextNode:
    metadata: dict[str, Any] = {"kind": "fact"}
    if isinstance(hit.item, Segment):
        said = hit.item.event_time
        metadata = {
            **hit.item.labels,
            "kind": "segment",
            "speaker": hit.item.speaker,
            "session": hit.item.session,
            "event_time": said.isoformat() if said else None,
        }
    return TextNode(id_=hit.item.id, text=hit.text, metadata=metadata)
