"""The blocking client; `trivium.aio` has the same one for asyncio."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import grpc

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


class Client:
    """A connection to the service, for one tenant; safe to share between threads.

    Every call has a deadline. Where a call takes `timeout` it is in seconds and
    None means the client's own: `timeout` for reads, `write_timeout` for what
    changes something. A retrieval's timeout sets both the gRPC deadline and,
    a tenth below it, the time that the server may spend, so that what the
    server has found by then still arrives.

    Example:
        >>> with Client("localhost:9000", tenant="alice") as client:  # doctest: +SKIP
        ...     memory = client.briefing("When is the wedding?", timeout=0.08)

    Args:
        target: The address, such as "localhost:9000".
        tenant: Whose memory it is.
        timeout: For reads, in seconds.
        write_timeout: For what changes something, in seconds.
        credentials: TLS credentials; None connects in the clear.
        metadata: What goes along with every call.
        options: gRPC channel arguments beside `trivium.channel.DEFAULT_OPTIONS`.

    Every call raises a `TriviumError` if it fails, and `ValueError`, before it is
    sent, for a time without a zone and for text with half of a surrogate pair.
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; calls in flight are cancelled."""
        self._channel.close()

    def for_tenant(self, tenant: str) -> Self:
        """This client for another tenant, over the same connection; close either, once."""
        other = copy.copy(self)
        other.tenant = tenant
        return other

    def connect(self, timeout: float | None = None) -> None:
        """Connects ahead of the first call, which is then spared the way there.

        Raises:
            UnavailableError: There is no connection within the timeout.
        """
        ready = grpc.channel_ready_future(self._channel)
        try:
            ready.result(timeout=self._reading(timeout))
        except grpc.FutureTimeoutError:
            raise not_connected() from None
        finally:
            ready.cancel()

    def retrieve(
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
        return responses.to_retrieval(self._send(self._retrieval.Retrieve, request, within))

    def briefing(
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
        return self.retrieve(query, briefing=form, timeout=timeout, **options).briefing

    def load_context(
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
            return self.briefing(query, timeout=timeout, **options)
        except TriviumError as error:
            logger.warning("starting without memory", extra={"reason": str(error)})
            return ""

    def profiles(self, *, timeout: float | None = None) -> tuple[Profile, ...]:
        """Reads the ranking profiles that a question can name."""
        response = self._send(
            self._retrieval.ListProfiles, ListProfilesRequest(), self._reading(timeout)
        )
        return responses.to_profiles(response)

    def compare(
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
        return responses.to_comparison(self._send(self._retrieval.Compare, request, within))

    def explain_absence(
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
        response = self._send(self._retrieval.ExplainAbsence, request, within)
        return responses.to_absence(response)

    def ingest(
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
        response = self._send(self._ingest.Ingest, request, self._writing(timeout))
        return responses.to_ingest_result(response)

    def ingest_stream(
        self,
        items: Iterable[Item],
        *,
        text_search_config: str = "",
        progress: Progress | None = None,
        timeout: float = DEFAULT_STREAM_TIMEOUT_S,
    ) -> StreamResult:
        """Stores any number of items, read from `items`, in another thread, as they can be sent.

        If reading them raises, what was read until then is stored and the
        error raised after that.
        """
        stream = _Stream(Batcher(self.tenant, text_search_config, progress), items)
        try:
            response = self._ingest.IngestStream(
                stream.messages(), timeout=timeout, metadata=self._metadata
            )
        except grpc.RpcError as error:
            raise to_error(error) from None
        if stream.error is not None:
            raise stream.error
        return responses.to_stream_result(response)

    def forget(
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
        response = self._send(self._ingest.Forget, request, self._writing(timeout))
        return responses.to_forget_result(response)

    def get_segments(self, ids: Sequence[str], *, timeout: float | None = None) -> SegmentsFound:
        """Reads up to 1,000 segments by id."""
        request = GetSegmentsRequest(tenant=self.tenant, ids=ids)
        response = self._send(self._catalog.GetSegments, request, self._reading(timeout))
        return responses.to_segments_found(response)

    def list_segments(
        self,
        *,
        filter: Filter | None = None,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Segment]:
        """Iterates over the segments by id; `timeout` holds for each page."""
        request = requests.list_segments(self.tenant, filter, page_size)
        while True:
            page = self._send(self._catalog.ListSegments, request, self._reading(timeout))
            yield from map(responses.to_segment, page.segments)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def list_facts(
        self,
        *,
        entities: Sequence[str] = (),
        valid_at: datetime | None = None,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Fact]:
        """Iterates over the facts by id; `timeout` holds for each page."""
        request = requests.list_facts(self.tenant, entities, valid_at, page_size)
        while True:
            page = self._send(self._catalog.ListFacts, request, self._reading(timeout))
            yield from map(responses.to_fact, page.facts)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def stats(self, *, timeout: float | None = None) -> Stats:
        """Reads counts, how far each projection is, and what serves."""
        request = GetStatsRequest(tenant=self.tenant)
        response = self._send(self._catalog.GetStats, request, self._reading(timeout))
        return responses.to_stats(response)

    def check(self, service: str = "", *, timeout: float | None = None) -> Health:
        """Asks for the health of a service; empty means the whole server."""
        return self._send(self._check, service, self._reading(timeout))

    def _send(
        self,
        method: grpc.UnaryUnaryMultiCallable[_Request, _Response],
        request: _Request,
        within: float,
    ) -> _Response:
        try:
            return method(request, timeout=within, metadata=self._metadata)
        except grpc.RpcError as error:
            raise to_error(error) from None

    def _reading(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else timeout

    def _writing(self, timeout: float | None) -> float:
        return self._write_timeout if timeout is None else timeout


class _Stream:
    """The messages of a stream of items, and the error that ended reading them."""

    def __init__(self, batcher: Batcher, items: Iterable[Item]) -> None:
        self._batcher = batcher
        self._items = items
        self.error: Exception | None = None

    def messages(self) -> Iterator[IngestStreamRequest]:
        # gRPC would log an error of its iterator and hide it behind a status.
        try:
            for item in self._items:
                yield from self._batcher.add(item)
        except Exception as error:
            self.error = error
        yield from self._batcher.flush()


def _open(
    target: str, credentials: grpc.ChannelCredentials | None, options: ChannelOptions
) -> grpc.Channel:
    if credentials is None:
        return grpc.insecure_channel(target, with_defaults(options))
    return grpc.secure_channel(target, credentials, with_defaults(options))
