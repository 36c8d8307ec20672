# Generated from aio.py by clients/python/async_to_sync.py (make sync-client). Do not edit.
"""The blocking client."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Self, TypeVar, Unpack

import grpc

from trivium.admin import ApiKey, AuditEntry, NewKey, Role, Tenant
from trivium.errors import TriviumError, not_connected, to_error
from trivium.tuning import Absence, Comparison, Profile
from trivium.v1.admin_service_pb2 import (
    ListAuditEntriesRequest,
    ListKeysRequest,
    ListTenantsRequest,
    RevokeKeyRequest,
)
from trivium.v1.admin_service_pb2_grpc import AdminServiceStub
from trivium.v1.catalog_service_pb2 import (
    GetFactsRequest,
    GetSegmentsRequest,
    GetStatsRequest,
    WatchChangesRequest,
)
from trivium.v1.catalog_service_pb2_grpc import CatalogServiceStub
from trivium.v1.ingest_service_pb2 import PatchRequest
from trivium.v1.ingest_service_pb2_grpc import IngestServiceStub
from trivium.v1.retrieval_service_pb2 import (
    DescribeEntityRequest,
    ExplainAbsenceRequest,
    ListProfilesRequest,
    RetrieveBatchRequest,
    RetrieveRequest,
    RetrieveStreamRequest,
    WarmRequest,
)
from trivium.v1.retrieval_service_pb2_grpc import RetrievalServiceStub
from trivium.values import (
    BriefingOptions,
    Changes,
    Description,
    Fact,
    FactsFound,
    Filter,
    ForgetResult,
    Health,
    IngestResult,
    Item,
    PatchResult,
    Retrieval,
    Segment,
    SegmentsFound,
    Stats,
    StreamedRetrieval,
    StreamResult,
    Transcript,
    WarmPart,
)
from trivium.wire import health, requests
from trivium.wire.channel import (
    DEFAULT_STREAM_TIMEOUT_S,
    DEFAULT_TIMEOUT_S,
    DEFAULT_UTTERANCE_TIMEOUT_S,
    DEFAULT_WATCH_TIMEOUT_S,
    DEFAULT_WRITE_TIMEOUT_S,
    ChannelOptions,
    Metadata,
)
from trivium.wire.credentials import TLS, bearer, channel_credentials, check_encrypted
from trivium.wire.requests import (
    OPENING_LIMIT,
    OPENING_PROFILE,
    OPENING_TIMEOUT_S,
    Batcher,
    Progress,
    RetrieveOptions,
)
from trivium.wire.responses import read, read_batch
from trivium.wire.transport import Items, Transcripts, each, open_channel, wait_ready

logger = logging.getLogger(__name__)

_Given = TypeVar("_Given")
_Message = TypeVar("_Message")
_Response = TypeVar("_Response")


class Client:
    """A connection to the service for one tenant, safe to share between threads.

    Every call has a deadline. The argument `timeout` of a call is in seconds; None means the
    client's `timeout` for reads and its `write_timeout` for writes. The timeout of a retrieval is
    its gRPC deadline; the server gets nine tenths of it as its time budget, so that its results
    arrive before the deadline.

    Example:
        >>> with Client("localhost:9000", tenant="alice") as client:  # doctest: +SKIP
        ...     memory = client.briefing("When is the wedding?", timeout=0.08)

    Args:
        target: The address, such as "localhost:9000".
        tenant: The tenant; may be empty if the credentials are bound to one.
        token: A key or a JSON Web Token, sent with every call. It is only sent over TLS, or to this
            machine: a Unix socket, localhost, 127.0.0.0/8 or ::1.
        tls: The certificates; None connects without encryption.
        token_without_tls: Sends the token to another machine although the client does not encrypt,
            because something on the way does, such as the sidecar of a service mesh.
        timeout: For reads, in seconds.
        write_timeout: For writes, in seconds.
        credentials: Credentials of gRPC, in place of `tls`.
        metadata: Metadata sent with every call.
        options: gRPC channel arguments in addition to `trivium.wire.channel.DEFAULT_OPTIONS`.
        time_zone: Where those who ask and tell are: the days that questions and turns name are days
            there. As `time_zone` of `RetrieveOptions`.

    Raises:
        ValueError: A token would be sent to another machine without encryption, or is none that
            can be sent.

    Every call raises a `TriviumError` if it fails. It raises `ValueError`, before it is sent, for a
    time without a time zone and for text with a lone surrogate, and `TypeError` for one text in
    place of a list.
    """

    def __init__(
        self,
        target: str,
        *,
        tenant: str = "",
        token: str = "",
        tls: TLS | None = None,
        token_without_tls: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
        write_timeout: float = DEFAULT_WRITE_TIMEOUT_S,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Metadata = (),
        options: ChannelOptions = (),
        time_zone: str = "",
    ) -> None:
        self.tenant = tenant
        self.time_zone = time_zone
        self._timeout = timeout
        self._write_timeout = write_timeout
        credentials = credentials or channel_credentials(tls)
        self._metadata = (*metadata, *bearer(token))
        if credentials is None and not token_without_tls:
            check_encrypted(self._metadata, target)
        self._channel = open_channel(target, credentials, options)
        self._retrieval = RetrievalServiceStub(self._channel)
        self._ingest = IngestServiceStub(self._channel)
        self._catalog = CatalogServiceStub(self._channel)
        self._admin = AdminServiceStub(self._channel)
        self._check = self._channel.unary_unary(
            health.CHECK_METHOD, health.encode_request, health.decode_response
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection and cancels the calls in flight."""
        self._channel.close()

    def for_tenant(self, tenant: str) -> Self:
        """This client for another tenant. Both share the connection: close only one of them."""
        other = copy.copy(self)
        other.tenant = tenant
        return other

    def connect(self, timeout: float | None = None) -> None:
        """Connects before the first call, which is then faster.

        Raises:
            UnavailableError: The connection was not established within the timeout.
        """
        try:
            wait_ready(self._channel, self._reading(timeout))
        except TimeoutError:
            raise not_connected() from None

    def retrieve(
        self,
        query: str,
        *,
        briefing: BriefingOptions | None = None,
        timeout: float | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> Retrieval:
        """Finds the segments or facts that help to answer the query.

        Args:
            query: The query; may be empty if a vector is given.
            briefing: The options of the prompt block; None returns no block.
            timeout: In seconds. Legs that have not answered after nine tenths of it are
                reported as timed out.
            **options: As in `RetrieveOptions`.
        """
        within = self._reading(timeout)
        request = self._question(query, timeout=within, briefing=briefing, **options)
        return read(Retrieval, self._send(self._retrieval.Retrieve, request, within))

    def retrieve_batch(
        self,
        queries: Sequence[str],
        *,
        briefing: BriefingOptions | None = None,
        timeout: float | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> tuple[Retrieval | TriviumError, ...]:
        """Runs up to sixteen queries in one call, each as `retrieve` does, with the same options.

        A query that fails has its error in its place; the others are answered.

        Args:
            queries: At least one.
            briefing: As in `retrieve`, for each of them.
            timeout: As in `retrieve`, for all of them together.
            **options: As in `RetrieveOptions`.
        """
        within = self._reading(timeout)
        each = [
            self._question(query, timeout=within, briefing=briefing, **options)
            for query in requests.texts("queries", queries)
        ]
        request = RetrieveBatchRequest(tenant=self.tenant, requests=each)
        return read_batch(self._send(self._retrieval.RetrieveBatch, request, within))

    def briefing(
        self,
        query: str,
        *,
        max_chars: int = 0,
        max_line_chars: int = 0,
        without_days: bool = False,
        timeout: float | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> str:
        """Runs a query and returns the `<memory>` block to put into a prompt.

        The server writes the block: each line with its day, without control characters, and marked
        as data, not instructions. It is empty if there are no hits.

        Args:
            query: The query; may be empty if a vector is given.
            max_chars: The maximum length of the block; 0 means 2000.
            max_line_chars: As in `BriefingOptions`.
            without_days: As in `BriefingOptions`.
            timeout: As in `retrieve`.
            **options: As in `RetrieveOptions`.
        """
        form = BriefingOptions(
            max_chars=max_chars, max_line_chars=max_line_chars, without_days=without_days
        )
        return (self.retrieve(query, briefing=form, timeout=timeout, **options)).briefing

    def load_context(
        self,
        query: str = "",
        *,
        timeout: float = OPENING_TIMEOUT_S,
        **options: Unpack[RetrieveOptions],
    ) -> str:
        """Returns the prompt block for the start of a conversation; empty if the call fails.

        Without a query it searches for nothing: it has what is important, the facts that hold, and
        the newest statements. Errors are logged, not raised, so that a bot can start without its
        memory.

        Args:
            query: What the conversation will be about, if that is known.
            timeout: In seconds.
            **options: As in `RetrieveOptions`; the default of `limit` is 10, and without a query
                that of `profile` is "opening".
        """
        options.setdefault("limit", OPENING_LIMIT)
        if not query:
            options.setdefault("profile", OPENING_PROFILE)
        try:
            return self.briefing(query, timeout=timeout, **options)
        except TriviumError as error:
            logger.warning("starting without memory: %s", error)
            return ""

    def retrieve_stream(
        self,
        transcripts: Transcripts,
        *,
        briefing: BriefingOptions | None = None,
        timeout: float | None = None,
        stream_timeout: float = DEFAULT_UTTERANCE_TIMEOUT_S,
        **options: Unpack[RetrieveOptions],
    ) -> Iterator[StreamedRetrieval]:
        """Retrieves while somebody speaks: iterates over the answers to transcripts of one turn.

        Each transcript replaces the one before it, whose search is cancelled. One whose search ends
        before that is answered early. The final one is answered as by `retrieve`; it ends the
        stream. `trivium.conversation.Recall` is built on this.

        Args:
            transcripts: What was said so far, at most 1,000 times; read in another thread while
                answers are read.
            briefing: As in `retrieve`.
            timeout: As in `retrieve`, for each transcript that has none of its own.
            stream_timeout: For the whole stream, at most 300 s.
            **options: As in `RetrieveOptions`.
        """
        within = self._reading(timeout)

        def to_messages(transcript: Transcript) -> list[RetrieveStreamRequest]:
            timeout = within if transcript.timeout is None else requests.finite(transcript.timeout)
            asked = self._question(transcript.text, timeout=timeout, briefing=briefing, **options)
            return [RetrieveStreamRequest(retrieve=asked, final=transcript.final)]

        stream = _Outgoing(each(transcripts), to_messages)
        call = self._retrieval.RetrieveStream(
            stream.messages(), timeout=stream_timeout, metadata=self._metadata
        )
        try:
            for response in call:
                yield read(StreamedRetrieval, response)
        except grpc.RpcError as error:
            raise to_error(error) from None
        finally:
            call.cancel()
        if stream.error is not None:
            raise stream.error

    def describe(
        self,
        *,
        speaker: str = "",
        entity: str = "",
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        max_chars: int = 0,
        time_zone: str = "",
        consistency_token: str = "",
        timeout: float | None = None,
    ) -> Description:
        """Returns what holds now about somebody, as rows and as the `<memory>` block.

        Nothing is searched for, and no model is asked. Sensitive items are not shown.

        Args:
            speaker: Who speaks: the facts about them, and what they said.
            entity: A person or a thing, instead: the facts about it, and what mentions it.
            as_of: What held then, timezone-aware; None means now.
            known_at: As in `RetrieveOptions`.
            max_chars: The maximum length of the block; 0 means 2000.
            time_zone: As in `RetrieveOptions`, for the days that the block names.
            consistency_token: As in `RetrieveOptions`; any write is seen once it has returned.
            timeout: In seconds.

        Raises:
            ValueError: Not exactly one of `speaker` and `entity` is given.
        """
        within = self._reading(timeout)
        if bool(speaker) == bool(entity):
            raise ValueError("exactly one of speaker and entity is required")
        request = DescribeEntityRequest(
            tenant=self.tenant,
            speaker=speaker or None,
            entity=entity or None,
            as_of=requests.timestamp(as_of),
            known_at=requests.timestamp(known_at),
            max_chars=max_chars,
            time_budget=requests.budget(within),
            time_zone=time_zone or requests.time_zone_of(as_of) or self.time_zone,
            consistency_token=consistency_token,
        )
        response = self._send(self._retrieval.DescribeEntity, request, within)
        return read(Description, response)

    def warm(self, *, profile: str = "", timeout: float | None = None) -> tuple[WarmPart, ...]:
        """Prepares for the tenant's first query, as when a call begins.

        Opens connections, and loads the tenant's names, word statistics and vectors. A store that
        does not answer is reported; without PostgreSQL it raises `UnavailableError`.

        Args:
            profile: That of the queries to come; empty means "default".
            timeout: As in `retrieve`.
        """
        within = self._reading(timeout)
        budget = requests.budget(within)
        request = WarmRequest(tenant=self.tenant, profile=profile, time_budget=budget)
        response = self._send(self._retrieval.Warm, request, within)
        return tuple(read(WarmPart, part) for part in response.parts)

    def list_profiles(
        self, *, page_size: int = 0, timeout: float | None = None
    ) -> Iterator[Profile]:
        """Iterates over the ranking profiles by name; `timeout` applies to each page."""
        request = ListProfilesRequest(page_size=page_size)
        for page in self._pages(self._retrieval.ListProfiles, request, timeout):
            for profile in page.profiles:
                yield read(Profile, profile)

    def compare(
        self,
        query: str,
        *,
        against: str = "",
        against_overrides: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> Comparison:
        """Runs a query under two profiles and compares the rankings.

        Args:
            query: The query; may be empty if a vector is given.
            against: The second profile; empty means the first, for use with `against_overrides`.
            against_overrides: Changes to the second profile. The overrides in `options` apply to
                the first profile only.
            timeout: As in `retrieve`, for both together.
            **options: As in `RetrieveOptions`.
        """
        within = self._reading(timeout)
        retrieve = self._question(query, timeout=within, **options)
        request = requests.compare(retrieve, against, against_overrides)
        return read(Comparison, self._send(self._retrieval.Compare, request, within))

    def explain_absence(
        self,
        query: str,
        *,
        segment_id: str = "",
        fact_id: str = "",
        timeout: float | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> Absence:
        """Reports why an item is missing from the results of a query: the stage that lost it.

        Args:
            query: The query; may be empty if a vector is given.
            segment_id: The expected segment.
            fact_id: The expected fact, instead of a segment.
            timeout: As in `retrieve`; the query is run several times within it.
            **options: As in `RetrieveOptions`.

        Raises:
            ValueError: Not exactly one of the two ids is given.
        """
        within = self._reading(timeout)
        retrieve = self._question(query, timeout=within, **options)
        item = requests.item_ref(segment_id, fact_id)
        request = ExplainAbsenceRequest(retrieve=retrieve, item=item)
        response = self._send(self._retrieval.ExplainAbsence, request, within)
        return read(Absence, response)

    def ingest(
        self,
        items: Iterable[Item],
        *,
        text_search_config: str = "",
        time_zone: str = "",
        timeout: float | None = None,
    ) -> IngestResult:
        """Stores up to 1,000 items in one transaction; invalid items are rejected and reported.

        Args:
            items: Segments and facts.
            text_search_config: The language of the words of a tenant
                that this call creates; empty means "english".
            time_zone: Where the turns are said, if not where the client is.
            timeout: In seconds.
        """
        zone = time_zone or self.time_zone
        request = requests.ingest(self.tenant, list(items), text_search_config, zone)
        response = self._send(self._ingest.Ingest, request, self._writing(timeout))
        return read(IngestResult, response)

    def ingest_stream(
        self,
        items: Items,
        *,
        text_search_config: str = "",
        progress: Progress | None = None,
        timeout: float = DEFAULT_STREAM_TIMEOUT_S,
    ) -> StreamResult:
        """Stores any number of items; `items` is read in another thread as they are sent.

        If reading `items` raises, the items read before are stored, and the error is then raised.
        """
        batcher = Batcher(self.tenant, text_search_config, progress, self.time_zone)
        stream = _Outgoing(each(items), batcher.add, batcher.flush)
        try:
            response = self._ingest.IngestStream(
                stream.messages(), timeout=timeout, metadata=self._metadata
            )
        except grpc.RpcError as error:
            raise to_error(error) from None
        if stream.error is not None:
            raise stream.error
        return read(StreamResult, response)

    def patch(
        self,
        *,
        segment_id: str = "",
        fact_id: str = "",
        text: str | None = None,
        title: str | None = None,
        importance: float | None = None,
        set_labels: Mapping[str, str] | None = None,
        remove_labels: Sequence[str] = (),
        expires_at: datetime | None = None,
        never_expires: bool = False,
        if_version: int | None = None,
        time_zone: str = "",
        timeout: float | None = None,
    ) -> PatchResult:
        """Changes some fields of a stored item; None leaves a field as it is.

        Args:
            segment_id: The segment to change.
            fact_id: The fact to change, instead of a segment; it has no title, importance or
                labels.
            text: The text of the segment, or the sentence of the fact; it is embedded anew.
            title: The title.
            importance: The importance.
            set_labels: Labels to add, or to give another value.
            remove_labels: The keys of labels to remove.
            expires_at: When it expires.
            never_expires: Remove its expiry.
            if_version: The version that it must have; None changes any version.
            time_zone: Where a new text was said, if not where the client is.
            timeout: In seconds.

        Raises:
            NotFoundError: The item is not stored.
            ConflictError: It has another version than `if_version`.
            ValueError: Not exactly one of the two ids is given.
        """
        request = PatchRequest(
            tenant=self.tenant,
            item=requests.item_ref(segment_id, fact_id),
            text=text,
            title=title,
            importance=importance,
            set_labels=set_labels,
            remove_labels=requests.texts("remove_labels", remove_labels),
            expires_at=requests.timestamp(expires_at),
            never_expires=never_expires,
            if_version=if_version,
            time_zone=time_zone or self.time_zone,
        )
        response = self._send(self._ingest.Patch, request, self._writing(timeout))
        return read(PatchResult, response)

    def forget(
        self,
        *,
        segment_ids: Sequence[str] = (),
        fact_ids: Sequence[str] = (),
        session: str = "",
        speaker: str = "",
        filter: Filter | None = None,
        everything: bool = False,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> ForgetResult:
        """Erases items from every store: by id, session, speaker or filter, or all items.

        Args:
            segment_ids: Segments.
            fact_ids: Facts, instead of segments or together with them.
            session: All items of a session.
            speaker: All items of a speaker, whatever the case of the name. Names that differ by a
                sign or an accent are two.
            filter: The segments that pass it, such as those of a label or a time range. It must
                say what to erase, and not only what to leave out.
            everything: All items of the tenant.
            dry_run: Erase nothing, and count what would be erased.
            timeout: In seconds.

        Raises:
            ValueError: Not exactly one of these selections is given.
        """
        request = requests.forget(
            self.tenant,
            segment_ids=segment_ids,
            fact_ids=fact_ids,
            session=session,
            speaker=speaker,
            everything=everything,
            filter_=filter,
            dry_run=dry_run,
        )
        response = self._send(self._ingest.Forget, request, self._writing(timeout))
        return read(ForgetResult, response)

    def get_segments(self, ids: Sequence[str], *, timeout: float | None = None) -> SegmentsFound:
        """Reads up to 1,000 segments by id."""
        request = GetSegmentsRequest(tenant=self.tenant, ids=requests.texts("ids", ids))
        response = self._send(self._catalog.GetSegments, request, self._reading(timeout))
        return read(SegmentsFound, response)

    def get_facts(self, ids: Sequence[str], *, timeout: float | None = None) -> FactsFound:
        """Reads up to 1,000 facts by id."""
        request = GetFactsRequest(tenant=self.tenant, ids=requests.texts("ids", ids))
        response = self._send(self._catalog.GetFacts, request, self._reading(timeout))
        return read(FactsFound, response)

    def list_segments(
        self,
        *,
        filter: Filter | None = None,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Segment]:
        """Iterates over the segments by id; `timeout` applies to each page."""
        request = requests.list_segments(self.tenant, filter, page_size)
        for page in self._pages(self._catalog.ListSegments, request, timeout):
            for segment in page.segments:
                yield read(Segment, segment)

    def list_facts(
        self,
        *,
        entities: Sequence[str] = (),
        valid_at: datetime | None = None,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Fact]:
        """Iterates over the facts by id; `timeout` applies to each page."""
        request = requests.list_facts(self.tenant, entities, valid_at, page_size)
        for page in self._pages(self._catalog.ListFacts, request, timeout):
            for fact in page.facts:
                yield read(Fact, fact)

    def watch_changes(
        self,
        after_token: str = "",
        *,
        batch_size: int = 0,
        stream_timeout: float = DEFAULT_WATCH_TIMEOUT_S,
    ) -> Iterator[Changes]:
        """Iterates over the changes of the tenant's items, without an end: ids, and no texts.

        A stream that the service ends goes on in a new one. One that fails raises: go on with the
        last token, after which nothing is lost or repeated.

        Args:
            after_token: The last token of a former iteration, or the `consistency_token` of a
                write, for which what was written up to ten minutes before it may come too. Empty
                means from now on.
            batch_size: The largest number of changes at once; 0 means 100.
            stream_timeout: For each stream, which the service ends after five seconds.

        Raises:
            PreconditionError: The log does not have these changes any more (CHANGES_GONE).
        """
        request = WatchChangesRequest(
            tenant=self.tenant, after_token=after_token, batch_size=batch_size
        )
        while True:
            call = self._catalog.WatchChanges(
                request, timeout=stream_timeout, metadata=self._metadata
            )
            try:
                for response in call:
                    request.after_token = response.token
                    yield read(Changes, response)
            except grpc.RpcError as error:
                raise to_error(error) from None
            finally:
                call.cancel()

    def stats(self, *, timeout: float | None = None) -> Stats:
        """Reads item counts, the lag of each projection, and the state of the service."""
        request = GetStatsRequest(tenant=self.tenant)
        response = self._send(self._catalog.GetStats, request, self._reading(timeout))
        return read(Stats, response)

    def list_tenants(self, *, page_size: int = 0, timeout: float | None = None) -> Iterator[Tenant]:
        """Iterates over all tenants by name; `timeout` applies to each page.

        As the other calls about all tenants, it needs the role admin, for no tenant in particular.
        """
        request = ListTenantsRequest(page_size=page_size)
        for page in self._pages(self._admin.ListTenants, request, timeout):
            for tenant in page.tenants:
                yield read(Tenant, tenant)

    def list_audit_entries(
        self, *, all_tenants: bool = False, page_size: int = 0, timeout: float | None = None
    ) -> Iterator[AuditEntry]:
        """Iterates over who changed what, the newest first; `timeout` applies to each page.

        It needs the role admin; changes of `all_tenants` and keys, for no tenant in particular.
        """
        tenant = "" if all_tenants else self.tenant
        request = ListAuditEntriesRequest(tenant=tenant, page_size=page_size)
        for page in self._pages(self._admin.ListAuditEntries, request, timeout):
            for entry in page.entries:
                yield read(AuditEntry, entry)

    def list_keys(self, *, page_size: int = 0, timeout: float | None = None) -> Iterator[ApiKey]:
        """Iterates over all API keys, the newest first; `timeout` applies to each page."""
        request = ListKeysRequest(page_size=page_size)
        for page in self._pages(self._admin.ListKeys, request, timeout):
            for key in page.keys:
                yield read(ApiKey, key)

    def create_key(
        self,
        roles: Iterable[Role],
        *,
        tenant: str = "",
        all_tenants: bool = False,
        note: str = "",
        expires_at: datetime | None = None,
        timeout: float | None = None,
    ) -> NewKey:
        """Makes an API key, which is valid after about two seconds.

        Args:
            roles: The rights of the key.
            tenant: The only tenant that the key may name.
            all_tenants: Whether it may name any; either this or `tenant` is given.
            note: The users of the key.
            expires_at: When it is no longer accepted; None: never.
            timeout: The deadline in seconds.
        """
        request = requests.create_key(roles, tenant, all_tenants, note, expires_at)
        response = self._send(self._admin.CreateKey, request, self._writing(timeout))
        return read(NewKey, response)

    def revoke_key(self, id: str, *, timeout: float | None = None) -> None:
        """Revokes the API key with this id, which is rejected within five seconds."""
        request = RevokeKeyRequest(id=id)
        self._send(self._admin.RevokeKey, request, self._writing(timeout))

    def check(self, service: str = "", *, timeout: float | None = None) -> Health:
        """Checks the health of a service; empty means the whole server."""
        return self._send(self._check, service, self._reading(timeout))

    def _pages(
        self, method: Callable[..., Any], request: Any, timeout: float | None
    ) -> Iterator[Any]:
        """The pages of a list, each asked for when the one before was read."""
        while True:
            page = self._send(method, request, self._reading(timeout))
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def _send(
        self,
        method: Callable[..., _Response],
        request: object,
        within: float,
    ) -> _Response:
        try:
            return method(request, timeout=within, metadata=self._metadata)
        except grpc.RpcError as error:
            raise to_error(error) from None

    def _question(
        self,
        query: str,
        *,
        timeout: float,
        briefing: BriefingOptions | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> RetrieveRequest:
        if not options.get("time_zone"):
            options["time_zone"] = requests.time_zone_of(options.get("as_of")) or self.time_zone
        return requests.retrieve(self.tenant, query, timeout=timeout, briefing=briefing, **options)

    def _reading(self, timeout: float | None) -> float:
        return requests.finite(self._timeout if timeout is None else timeout)

    def _writing(self, timeout: float | None) -> float:
        return requests.finite(self._write_timeout if timeout is None else timeout)


class _Outgoing(Generic[_Given, _Message]):
    """The messages of what a caller gives bit by bit, and the error that ended reading it."""

    def __init__(
        self,
        given: Iterator[_Given],
        to_messages: Callable[[_Given], Iterable[_Message]],
        rest: Callable[[], Iterable[_Message]] = tuple,
    ) -> None:
        self._given = given
        self._to_messages = to_messages
        self._rest = rest
        self.error: Exception | None = None

    def messages(self) -> Iterator[_Message]:
        # gRPC would log an error of its iterator and replace it with a status.
        try:
            for one in self._given:
                for message in self._to_messages(one):
                    yield message
        except Exception as error:
            self.error = error
        for message in self._rest():
            yield message
