"""A retriever of LangChain. Needs `trivium-langgraph[tools]`, which has langchain-core."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from trivium import AsyncClient, Client, Filter, Hit, Segment


class TriviumRetriever(BaseRetriever):
    """Retrieves segments and facts as documents, best first.

    A document has the id and the text of its item; its metadata have `kind` ("segment" or "fact"),
    `rank`, `score`, and of a segment `speaker`, `session`, `event_time` and its labels. It raises a
    `TriviumError` if the service does not answer.

    Args:
        client: With an `AsyncClient`, only `ainvoke` works, in the event loop of that client.
        profile: As in `Client.retrieve`.
        limit: As in `Client.retrieve`.
        filter: As in `Client.retrieve`.
        timeout: As in `Client.retrieve`.
    """

    client: Client | AsyncClient = Field(exclude=True, repr=False)
    profile: str = ""
    limit: int = 0
    filter: Filter | None = None
    timeout: float | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if isinstance(self.client, AsyncClient):
            raise TypeError("with an AsyncClient, call the retriever with ainvoke")
        return [_document(hit) for hit in self.client.retrieve(query, **self._options()).hits]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        if isinstance(self.client, AsyncClient):
            found = await self.client.retrieve(query, **self._options())
            return [_document(hit) for hit in found.hits]
        # In a thread.
        return await super()._aget_relevant_documents(query, run_manager=run_manager)

    def _options(self) -> dict[str, Any]:
        return {
            "profile": self.profile,
            "limit": self.limit,
            "filter": self.filter,
            "timeout": self.timeout,
        }


def _document(hit: Hit) -> Document:
    item = hit.item
    metadata: dict[str, Any] = {"kind": "fact", "rank": hit.rank, "score": hit.score}
    if isinstance(item, Segment):
        metadata |= {
            **item.labels,
            **metadata,
            "kind": "segment",
            "speaker": item.speaker,
            "session": item.session,
            "event_time": item.event_time,
        }
    return Document(id=item.id, page_content=hit.text, metadata=metadata)
