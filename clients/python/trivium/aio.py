"""The client for asyncio; `trivium.client` has the same one, blocking."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import grpc
from grpc import aio

from trivium import health, requests, responses
from trivium.channel import (
    DEFAULT_STREAM_TIMEOUT_S,
    DEFAULT_TIMEOUT_S,
    DEFAULT_WRITE_TIMEOUT_S,
    ChannelOptions,
    Metadata,
    with_defaults,
)
from trivium.errors import TriviumError, not_connected, to_error
from trivium.requests import (
    CONTEXT_LIMIT,
    CONTEXT_PROFILE,
    CONTEXT_QUERY,
    CONTEXT_TIMEOUT_S,
    Batcher,
    Progress,
    RetrieveOptions,
)
from trivium.tuning import Absence, Comparison, Profile
from trivium.v1.catalog_service_pb2 import GetSegmentsRequest, GetStatsRequest
from trivium.v1.catalog_service_pb2_grpc import CatalogServiceStub
from trivium.v1.ingest_service_pb2 import IngestStreamRequest
from trivium.v1.ingest_service_pb2_grpc import IngestServiceStub
from trivium.v1.retrieval_service_pb2 import ListProfilesRequest
from trivium.v1.retrieval_service_pb2_grpc import RetrievalServiceStub
from trivium.values import (
    BriefingOptions,
    Fact,
    Filter,
    ForgetResult,
    Health,
    IngestResult,
    Item,
    Retrieval,
    Segment,
    SegmentsFound,
    Stats,
    StreamResult,
)

logger = logging.getLogger(__name__)

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class AsyncClient:
    """A connection to the service, for one tenant; made and used within one event loop.

    It has the methods, deadlines and errors of `trivium.Client`, whose
    arguments it takes.

    Example:
        >>> async with AsyncClient("localhost:9000", tenant="alice") as client:  # doctest: +SKIP
        ...     memory = await client.briefing("When is the wedding?", timeout=0.08)
    """

    def __init__(
        self,
        target: str,
        *,
        tenant: str,
        timeout: float = DEFAULT_TIMEOUT_S,
        write_timeout: float = DEFAULT_WRITE_TIMEOUT_S,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Metadata = (),
        options: ChannelOptions = (),
    ) -> None:
        self.tenant = tenant
        self._timeout = timeout
        self._write_timeout = write_timeout
        self._metadata = tuple(metadata)
        self._channel = _open(target, credentials, options)
        self._retrieval = RetrievalServiceStub(self._channel)
        self._ingest = IngestServiceStub(self._channel)
        self._catalog = CatalogServiceStub(self._channel)
        self._check = self._channel.unary_unary(
            health.CHECK_METHOD, health.encode_request, health.decode_response
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection; calls in flight are cancelled."""
        await self._channel.close()

    def for_tenant(self, tenant: str) -> Self:
        """This client for another tenant, over the same connection; close either, once."""
        other = copy.copy(self)
        other.tenant = tenant
        return other

    async def connect(self, timeout: float | None = None) -> None:
        """Connects ahead of the first call, which is then spared the way there.

        Raises:
            UnavailableError: There is no connection within the timeout.
        """
        try:
            await asyncio.wait_for(self._channel.channel_ready(), self._reading(timeout))
        except TimeoutError:
            raise not_connected() from None

    async def retrieve(
        self,
        query: str,
        *,
        briefing: BriefingOptions | None = None,
        timeout: float | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> Retrieval:
        """Finds what is worth knowing to answer the question.

        Args:
            query: The question; may be empty if a vector is given.
            briefing: How to write the block for a prompt; None writes none.
            timeout: In seconds. Legs that have not answered in nine tenths of it
                are reported as timed out.
            **options: As in `RetrieveOptions`.
        """
        within = self._reading(timeout)
        request = requests.retrieve(
            self.tenant, query, timeout=within, briefing=briefing, **options
        )
        return responses.to_retrieval(await self._send(self._retrieval.Retrieve, request, within))

    async def briefing(
        self,
        query: str,
        *,
        max_chars: int = 0,
        max_line_chars: int = 0,
        timeout: float | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> str:
        """Retrieves, and returns the `<memory>` block to put into a prompt.

        The server writes it: cleaned of control characters, marked as data and
        not instructions, and empty if nothing was found.

        Args:
            query: The question; may be empty if a vector is given.
            max_chars: The longest block; 0 means 2000.
            max_line_chars: The longest line of it; 0 means 200.
            timeout: As in `retrieve`.
            **options: As in `RetrieveOptions`.
        """
        form = BriefingOptions(max_chars=max_chars, max_line_chars=max_line_chars)
        return (await self.retrieve(query, briefing=form, timeout=timeout, **options)).briefing

    async def load_context(
        self,
        query: str = CONTEXT_QUERY,
        *,
        timeout: float = CONTEXT_TIMEOUT_S,
        **options: Unpack[RetrieveOptions],
    ) -> str:
        """Returns the block to begin a conversation with; an empty text if it is not to be had.

        A bot that cannot reach its memory starts without it: what goes wrong is logged, and
        not raised.

        Args:
            query: What to begin with.
            timeout: The longest that this takes, in seconds.
            **options: As in `RetrieveOptions`; if not given, `limit` is 10 and `profile` `annie`.
        """
        options.setdefault("limit", CONTEXT_LIMIT)
        options.setdefault("profile", CONTEXT_PROFILE)
        try:
            return await self.briefing(query, timeout=timeout, **options)
        except TriviumError as error:
            logger.warning("starting without memory", extra={"reason": str(error)})
            return ""

    async def profiles(self, *, timeout: float | None = None) -> tuple[Profile, ...]:
        """Reads the ranking profiles that a question can name."""
        response = await self._send(
            self._retrieval.ListProfiles, ListProfilesRequest(), self._reading(timeout)
        )
        return responses.to_profiles(response)

    async def compare(
        self,
        query: str,
        *,
        against: str = "",
        against_changes: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> Comparison:
        """Asks a question under two profiles, and sets the answers side by side.

        Args:
            query: The question; may be empty if a vector is given.
            against: The other profile; empty means the same, which is of use with changes.
            against_changes: What to change in it, like `changes`, which are for the first one.
            timeout: As in `retrieve`, for both together.
            **options: As in `RetrieveOptions`.
        """
        within = self._reading(timeout)
        question = requests.retrieve(self.tenant, query, timeout=within, **options)
        request = requests.compare(question, against, against_changes)
        return responses.to_comparison(await self._send(self._retrieval.Compare, request, within))

    async def explain_absence(
        self,
        query: str,
        *,
        segment_id: str = "",
        fact_id: str = "",
        timeout: float | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> Absence:
        """Says why an item is not in the answer to a question: which stage lost it.

        Args:
            query: The question; may be empty if a vector is given.
            segment_id: The segment that was expected; or else
            fact_id: the fact.
            timeout: As in `retrieve`; the question is asked several times in it.
            **options: As in `RetrieveOptions`.

        Raises:
            ValueError: Not exactly one of the ids is given.
        """
        within = self._reading(timeout)
        question = requests.retrieve(self.tenant, query, timeout=within, **options)
        request = requests.explain_absence(question, segment_id, fact_id)
        response = await self._send(self._retrieval.ExplainAbsence, request, within)
        return responses.to_absence(response)

    async def ingest(
        self,
        items: Iterable[Item],
        *,
        text_search_config: str = "",
        timeout: float | None = None,
    ) -> IngestResult:
        """Stores up to 1,000 items in one transaction; what is malformed is left out and reported.

        Args:
            items: Segments and facts.
            text_search_config: The PostgreSQL text-search configuration of a tenant
                that this call makes; empty means "english".
            timeout: In seconds.
        """
        request = requests.ingest(self.tenant, list(items), text_search_config)
        response = await self._send(self._ingest.Ingest, request, self._writing(timeout))
        return responses.to_ingest_result(response)

    async def ingest_stream(
        self,
        items: Iterable[Item] | AsyncIterable[Item],
        *,
        text_search_config: str = "",
        progress: Progress | None = None,
        timeout: float = DEFAULT_STREAM_TIMEOUT_S,
    ) -> StreamResult:
        """Stores any number of items, read from `items` as they can be sent.

        If reading them raises, what was read until then is stored and the
        error raised after that.
        """
        stream = _Stream(Batcher(self.tenant, text_search_config, progress), items)
        try:
            response = await self._ingest.IngestStream(
                stream.messages(), timeout=timeout, metadata=self._metadata
            )
        except grpc.RpcError as error:
            raise to_error(error) from None
        if stream.error is not None:
            raise stream.error
        return responses.to_stream_result(response)

    async def forget(
        self,
        *,
        segment_ids: Sequence[str] = (),
        fact_ids: Sequence[str] = (),
        session: str = "",
        speaker: str = "",
        everything: bool = False,
        timeout: float | None = None,
    ) -> ForgetResult:
        """Erases by ids, by session, by speaker, or everything, from every store.

        Raises:
            ValueError: Not exactly one of these is given.
        """
        request = requests.forget(
            self.tenant,
            segment_ids=segment_ids,
            fact_ids=fact_ids,
            session=session,
            speaker=speaker,
            everything=everything,
        )
        response = await self._send(self._ingest.Forget, request, self._writing(timeout))
        return responses.to_forget_result(response)

    async def get_segments(
        self, ids: Sequence[str], *, timeout: float | None = None
    ) -> SegmentsFound:
        """Reads up to 1,000 segments by id."""
        request = GetSegmentsRequest(tenant=self.tenant, ids=ids)
        response = await self._send(self._catalog.GetSegments, request, self._reading(timeout))
        return responses.to_segments_found(response)

    async def list_segments(
        self,
        *,
        filter: Filter | None = None,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Segment]:
        """Iterates over the segments by id; `timeout` holds for each page."""
        request = requests.list_segments(self.tenant, filter, page_size)
        while True:
            page = await self._send(self._catalog.ListSegments, request, self._reading(timeout))
            for segment in page.segments:
                yield responses.to_segment(segment)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def list_facts(
        self,
        *,
        entities: Sequence[str] = (),
        valid_at: datetime | None = None,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Fact]:
        """Iterates over the facts by id; `timeout` holds for each page."""
        request = requests.list_facts(self.tenant, entities, valid_at, page_size)
        while True:
            page = await self._send(self._catalog.ListFacts, request, self._reading(timeout))
            for fact in page.facts:
                yield responses.to_fact(fact)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def stats(self, *, timeout: float | None = None) -> Stats:
        """Reads counts, how far each projection is, and what serves."""
        request = GetStatsRequest(tenant=self.tenant)
        response = await self._send(self._catalog.GetStats, request, self._reading(timeout))
        return responses.to_stats(response)

    async def check(self, service: str = "", *, timeout: float | None = None) -> Health:
        """Asks for the health of a service; empty means the whole server."""
        return await self._send(self._check, service, self._reading(timeout))

    async def _send(
        self,
        method: aio.UnaryUnaryMultiCallable[_Request, _Response],
        request: _Request,
        within: float,
    ) -> _Response:
        try:
            return await method(request, timeout=within, metadata=self._metadata)
        except grpc.RpcError as error:
            raise to_error(error) from None

    def _reading(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else timeout

    def _writing(self, timeout: float | None) -> float:
        return self._write_timeout if timeout is None else timeout


class _Stream:
    """The messages of a stream of items, and the error that ended reading them."""

    def __init__(self, batcher: Batcher, items: Iterable[Item] | AsyncIterable[Item]) -> None:
        self._batcher = batcher
        self._items = items
        self.error: Exception | None = None

    async def messages(self) -> AsyncIterator[IngestStreamRequest]:
        # gRPC would log an error of its iterator and hide it behind a status.
        try:
            async for item in _one_by_one(self._items):
                for message in self._batcher.add(item):
                    yield message
        except Exception as error:
            self.error = error
        for message in self._batcher.flush():
            yield message


async def _one_by_one(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[Item]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def _open(
    target: str, credentials: grpc.ChannelCredentials | None, options: ChannelOptions
) -> aio.Channel:
    if credentials is None:
        return aio.insecure_channel(target, with_defaults(options))
    return aio.secure_channel(target, credentials, with_defaults(options))
