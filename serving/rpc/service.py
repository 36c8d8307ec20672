"""The RPCs: each reads its request, calls the pipeline and writes the response."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from grpc_health.v1 import health_pb2

from serving import telemetry
from serving.config.profiles import ProfileBook
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import InvalidRequestError, TriviumError, Violation
from serving.domain.items.records import (
    Fact,
    Item,
    ItemId,
    Segment,
    fact_id,
    is_expired,
    segment_id,
)
from serving.domain.questions.query import Query
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.describe import Describer
from serving.pipeline.retrieval.explain_absence import AbsenceExplainer
from serving.pipeline.retrieval.newest import newest_answers
from serving.pipeline.retrieval.retrieve import Retriever
from serving.pipeline.retrieval.steps import Retrieval
from serving.pipeline.retrieval.warm import Warmer
from serving.pipeline.writes.forget import Eraser
from serving.pipeline.writes.ingest import Ingested, Ingestor
from serving.pipeline.writes.patch import Patcher
from serving.pipeline.writes.stats import Observer
from serving.pipeline.writes.watch import ChangeWatcher
from serving.ports.api_keys import ApiKeys
from serving.ports.audit_log import AuditLog
from serving.ports.embedding import Embedder
from serving.ports.memory_store import Catalog, MemoryStore
from serving.rpc import (
    admin,
    catalog,
    compare,
    describe_entity,
    explain_absence,
    forget,
    get_stats,
    ingest,
    list_profiles,
    patch,
    retrieve,
    retrieve_batch,
    retrieve_stream,
    warm,
    watch_changes,
)
from serving.rpc.boundary import CallContext, deadline_after, rpc, streaming_rpc
from serving.rpc.bounds import OpenStreams
from serving.rpc.health import Health
from serving.rpc.identity.authenticator import OPEN, Authenticator
from serving.rpc.items import from_fact, from_segment
from serving.rpc.pages import read_page
from serving.rpc.pending import PENDING_CALLS
from serving.rpc.recent_legs import RecentLegs
from serving.rpc.registration import Malformed
from serving.rpc.retrieve import RetrieveCall
from serving.rpc.retrieve_stream import StreamedCall
from serving.rpc.tracing import note_answer
from serving.telemetry import NoRecorder, Recorder, Tracer
from trivium.v1 import admin_service_pb2 as admin_pb
from trivium.v1 import catalog_service_pb2 as catalog_pb
from trivium.v1 import ingest_service_pb2 as ingest_pb
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

logger = logging.getLogger(__name__)

READ_BUDGET_S = 5.0
FORGET_BUDGET_S = 10.0
MAX_STREAMS = 32
MAX_REJECTED_LISTED = 100


def now_utc() -> datetime:
    """The current time."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCases:
    """The use cases and stores behind the RPCs."""

    retriever: Retriever
    warmer: Warmer
    describer: Describer
    explainer: AbsenceExplainer
    ingestor: Ingestor
    patcher: Patcher
    eraser: Eraser
    observer: Observer
    watcher: ChangeWatcher
    store: MemoryStore
    catalog: Catalog
    embedder: Embedder
    keys: ApiKeys
    audit_log: AuditLog


class TriviumService:
    """All RPCs, for gRPC and for Ray Serve.

    Ray Serve routes by method name, so the names are unique over all services. `streams` are those
    of callers with credentials, of all edges. `rejected_profiles` says why the last change of the
    profiles was rejected; it is empty if it was not.
    """

    def __init__(
        self,
        use_cases: UseCases,
        profiles: ProfileBook,
        *,
        recorder: Recorder | None = None,
        tracer: Tracer | None = None,
        authenticator: Authenticator = OPEN,
        streams: OpenStreams | None = None,
        now: Callable[[], datetime] = now_utc,
    ) -> None:
        self.use_cases = use_cases
        self._first_profiles = profiles
        self.profiles = profiles
        self.rejected_profiles = ""
        self.recorder = recorder or NoRecorder()
        self.tracer = tracer
        self.authenticator = authenticator
        self.streams = streams or OpenStreams(MAX_STREAMS)
        self._now = now
        self._recent_legs = RecentLegs()
        self._health = Health(lambda: use_cases.store.ready())

    def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Applies `{"profiles": {name: fields to change}}` to the profiles of the start.

        An invalid change is rejected as a whole: the current profiles stay in use, and the log
        and GetStats report the reason.
        """
        try:
            if unknown := [name for name in user_config if name != "profiles"]:
                raise ValueError(f"unknown field {unknown[0]!r}; only 'profiles' can be set")
            changed = self._first_profiles.reconfigured(user_config.get("profiles", {}))
            changed.log_notes()
        except ValueError as error:
            self.rejected_profiles = str(error)
            logger.error("profiles rejected", extra={"reason": self.rejected_profiles})
        except Exception:
            # If this were raised, Serve would restart the replica with the same configuration
            # again and again.
            self.rejected_profiles = "unexpected error, see the log"
            logger.exception("profiles rejected")
        else:
            self.profiles = changed
            self.rejected_profiles = ""

    @rpc(retrieval_pb.RetrieveResponse)
    async def Retrieve(
        self, request: retrieval_pb.RetrieveRequest
    ) -> retrieval_pb.RetrieveResponse:
        """Runs a query."""
        call = retrieve.to_retrieve_call(request, self.profiles, self._now())
        retrieval = await self._answer(call, self.use_cases.retriever.retrieve)
        return retrieve.from_retrieval(call, retrieval)

    @rpc(retrieval_pb.RetrieveBatchResponse)
    async def RetrieveBatch(
        self, request: retrieval_pb.RetrieveBatchRequest
    ) -> retrieval_pb.RetrieveBatchResponse:
        """Runs several queries of a tenant at once."""
        requests = retrieve_batch.to_requests(request)
        return retrieve_batch.from_answers(
            await asyncio.gather(*map(self._answer_or_error, requests))
        )

    async def _answer_or_error(
        self, request: retrieval_pb.RetrieveRequest
    ) -> tuple[RetrieveCall, Retrieval] | TriviumError:
        try:
            call = retrieve.to_retrieve_call(request, self.profiles, self._now())
            return call, await self._answer(call, self.use_cases.retriever.retrieve)
        except TriviumError as error:
            return error

    @streaming_rpc
    async def RetrieveStream(
        self, stream: AsyncIterator[retrieval_pb.RetrieveStreamRequest | Malformed]
    ) -> AsyncGenerator[retrieval_pb.RetrieveStreamResponse, None]:
        """Runs the newest query of a stream."""
        answered = newest_answers(self._streamed(stream), self._anticipate)
        async with aclosing(answered):
            async for call, retrieval in answered:
                if call.final:
                    self.use_cases.retriever.record_access(call.retrieve.query, retrieval)
                yield retrieve_stream.from_streamed(call, retrieval)

    async def _streamed(
        self, stream: AsyncIterator[retrieval_pb.RetrieveStreamRequest | Malformed]
    ) -> AsyncIterator[StreamedCall]:
        number = 0
        async for request in stream:
            number += 1
            if isinstance(request, Malformed):
                raise request.error()
            yield retrieve_stream.to_streamed_call(request, number, self.profiles, self._now())

    async def _anticipate(self, call: StreamedCall) -> Retrieval:
        return await self._answer(call.retrieve, self.use_cases.retriever.preview)

    @rpc(retrieval_pb.WarmResponse)
    async def Warm(self, request: retrieval_pb.WarmRequest) -> retrieval_pb.WarmResponse:
        """Prepares for the first query of a tenant."""
        call = warm.to_warm_call(request, self.profiles, self._now())
        deadline = deadline_after(call.time_budget_s)
        warmed = await self.use_cases.warmer.warm(call.query, call.profile, deadline)
        return warm.from_warmed(call, warmed)

    @rpc(retrieval_pb.DescribeEntityResponse)
    async def DescribeEntity(
        self, request: retrieval_pb.DescribeEntityRequest
    ) -> retrieval_pb.DescribeEntityResponse:
        """Returns what holds now about somebody."""
        started = time.perf_counter()
        call = describe_entity.to_describe_call(request, self._now())
        deadline = deadline_after(call.time_budget_s)
        description = await self.use_cases.describer.describe(call.query, deadline)
        elapsed_s = time.perf_counter() - started
        return describe_entity.from_description(call, description, elapsed_s)

    @rpc(retrieval_pb.ListProfilesResponse)
    async def ListProfiles(
        self, request: retrieval_pb.ListProfilesRequest
    ) -> retrieval_pb.ListProfilesResponse:
        """Lists the ranking profiles in pages."""
        page = read_page(request)
        names = sorted(name for name in self.profiles if name > page.after)[: page.size]
        return list_profiles.from_profiles(self.profiles, names, page.next_token(names))

    @rpc(retrieval_pb.CompareResponse)
    async def Compare(self, request: retrieval_pb.CompareRequest) -> retrieval_pb.CompareResponse:
        """Runs a query under two profiles."""
        calls = compare.to_compare_call(request, self.profiles, self._now())
        preview = self.use_cases.retriever.preview
        retrieved = await asyncio.gather(*(self._answer(call, preview) for call in calls))
        return compare.from_comparison(*zip(calls, retrieved, strict=True))

    @rpc(retrieval_pb.ExplainAbsenceResponse)
    async def ExplainAbsence(
        self, request: retrieval_pb.ExplainAbsenceRequest
    ) -> retrieval_pb.ExplainAbsenceResponse:
        """Reports why an item is not a hit."""
        call, item = explain_absence.to_explain_absence_call(request, self.profiles, self._now())
        await self._check_vector(call.query)
        deadline = deadline_after(call.time_budget_s)
        explain = self.use_cases.explainer.explain
        return explain_absence.from_absence(await explain(call.query, call.profile, item, deadline))

    @rpc(ingest_pb.IngestResponse)
    async def Ingest(self, request: ingest_pb.IngestRequest) -> ingest_pb.IngestResponse:
        """Stores a batch."""
        call = await self._read(request)
        return ingest.from_ingested(call, await self._store(call))

    @rpc(ingest_pb.IngestStreamResponse)
    async def IngestStream(
        self, stream: AsyncIterator[ingest_pb.IngestStreamRequest | Malformed]
    ) -> ingest_pb.IngestStreamResponse:
        """Stores a stream of batches."""
        response = ingest_pb.IngestStreamResponse()
        token: ConsistencyToken | None = None
        before = 0
        async for request in stream:
            if isinstance(request, Malformed):
                raise request.error()
            call = await self._read(request)
            ingested = await self._store(call, patient=True)
            if ingested is not None:
                token = ingested.token if token is None else token.merged(ingested.token)
                response.created_count += ingested.outcomes.count("created")
                response.updated_count += ingested.outcomes.count("updated")
                response.unchanged_count += ingested.outcomes.count("unchanged")
            response.rejected_count += len(call.rejected)
            room = MAX_REJECTED_LISTED - len(response.rejected)
            response.rejected.extend(
                ingest.rejected_outcome(before + place, item, violations)
                for place, (item, violations) in list(call.rejected.items())[:room]
            )
            before += len(request.items)
        response.consistency_token = str(token) if token is not None else ""
        return response

    @rpc(ingest_pb.PatchResponse)
    async def Patch(self, request: ingest_pb.PatchRequest) -> ingest_pb.PatchResponse:
        """Changes fields of an item."""
        call = patch.to_patch_call(request, self._now())
        return patch.from_patched(
            await self.use_cases.patcher.patch(
                call.tenant,
                call.item,
                call.patch,
                if_version=call.if_version,
                time_zone=call.time_zone,
            )
        )

    @rpc(ingest_pb.ForgetResponse)
    async def Forget(self, request: ingest_pb.ForgetRequest) -> ingest_pb.ForgetResponse:
        """Erases items, or counts them."""
        tenant, selector = forget.to_selector(request)
        if request.dry_run:
            selected = await self.use_cases.store.count_selected(tenant, selector)
            return forget.from_selected(selected)
        deadline = Deadline.after(FORGET_BUDGET_S)
        forgotten = await self.use_cases.eraser.forget(tenant, selector, deadline)
        return forget.from_forgotten(forgotten)

    @rpc(catalog_pb.GetSegmentsResponse)
    async def GetSegments(
        self, request: catalog_pb.GetSegmentsRequest
    ) -> catalog_pb.GetSegmentsResponse:
        """Reads segments by id."""
        rows, missing = await self._load(request, segment_id)
        segments = [from_segment(row) for row in rows if isinstance(row, Segment)]
        return catalog_pb.GetSegmentsResponse(segments=segments, missing_ids=missing)

    @rpc(catalog_pb.GetFactsResponse)
    async def GetFacts(self, request: catalog_pb.GetFactsRequest) -> catalog_pb.GetFactsResponse:
        """Reads facts by id."""
        rows, missing = await self._load(request, fact_id)
        facts = [from_fact(row) for row in rows if isinstance(row, Fact)]
        return catalog_pb.GetFactsResponse(facts=facts, missing_ids=missing)

    async def _load(
        self,
        request: catalog_pb.GetSegmentsRequest | catalog_pb.GetFactsRequest,
        item_of: Callable[[str], ItemId],
    ) -> tuple[list[Item], list[str]]:
        """Returns the items that are stored and have not expired, and the ids of the others."""
        tenant, ids = catalog.to_ids(request)
        items = [item_of(id_) for id_ in ids]
        loaded = await self.use_cases.store.load(tenant, items, Deadline.after(READ_BUDGET_S))
        now = self._now()
        rows = {item: row for item, row in loaded.items() if not is_expired(row, now)}
        stored = [rows[item] for item in items if item in rows]
        return stored, [item.id for item in items if item not in rows]

    @rpc(catalog_pb.ListSegmentsResponse)
    async def ListSegments(
        self, request: catalog_pb.ListSegmentsRequest
    ) -> catalog_pb.ListSegmentsResponse:
        """Lists segments in pages."""
        call = catalog.to_list_segments_call(request)
        rows = await self.use_cases.catalog.list_segments(call.tenant, call.filter, *call.page)
        return catalog_pb.ListSegmentsResponse(
            segments=[from_segment(row) for row in rows],
            next_page_token=call.page.next_token([row.id for row in rows]),
        )

    @rpc(catalog_pb.ListFactsResponse)
    async def ListFacts(self, request: catalog_pb.ListFactsRequest) -> catalog_pb.ListFactsResponse:
        """Lists facts in pages."""
        call = catalog.to_list_facts_call(request)
        rows = await self.use_cases.catalog.list_facts(
            call.tenant, call.entities, call.valid_at, *call.page
        )
        return catalog_pb.ListFactsResponse(
            facts=[from_fact(row) for row in rows],
            next_page_token=call.page.next_token([row.id for row in rows]),
        )

    @streaming_rpc
    async def WatchChanges(
        self, request: catalog_pb.WatchChangesRequest
    ) -> AsyncGenerator[catalog_pb.WatchChangesResponse, None]:
        """Streams which items of a tenant change."""
        call = watch_changes.to_watch_call(request)
        watched = self.use_cases.watcher.watch(call.tenant, call.after, call.batch_size)
        async with aclosing(watched):
            async for read in watched:
                yield watch_changes.from_changes(read)

    @rpc(catalog_pb.GetStatsResponse)
    async def GetStats(self, request: catalog_pb.GetStatsRequest) -> catalog_pb.GetStatsResponse:
        """Reports the state of the service."""
        tenant = get_stats.to_stats_tenant(request)
        overview = await self.use_cases.observer.overview(tenant)
        if self.rejected_profiles:
            overview.degraded.append(f"profiles: {self.rejected_profiles}")
        return get_stats.from_overview(overview, self._recent_legs.activities())

    @rpc(admin_pb.ListTenantsResponse)
    async def ListTenants(
        self, request: admin_pb.ListTenantsRequest
    ) -> admin_pb.ListTenantsResponse:
        """Lists all tenants in pages."""
        page = read_page(request)
        return admin.from_tenants(await self.use_cases.catalog.list_tenants(*page), page)

    @rpc(admin_pb.ListKeysResponse)
    async def ListKeys(self, request: admin_pb.ListKeysRequest) -> admin_pb.ListKeysResponse:
        """Lists all API keys in pages."""
        page = read_page(request)
        accepted = self.authenticator.keys is not None
        return admin.from_keys(await self.use_cases.keys.all(), page, accepted=accepted)

    @rpc(admin_pb.CreateKeyResponse)
    async def CreateKey(self, request: admin_pb.CreateKeyRequest) -> admin_pb.CreateKeyResponse:
        """Makes an API key."""
        text, key = admin.to_new_key(request, self._now())
        await self.use_cases.keys.add(key)
        return admin_pb.CreateKeyResponse(secret=str(text), key=admin.from_key(key))

    @rpc(admin_pb.RevokeKeyResponse)
    async def RevokeKey(self, request: admin_pb.RevokeKeyRequest) -> admin_pb.RevokeKeyResponse:
        """Revokes an API key."""
        id_ = admin.to_key_id(request)
        if not await self.use_cases.keys.revoke(id_):
            raise admin.unknown_key(id_)
        return admin_pb.RevokeKeyResponse()

    @rpc(admin_pb.ListAuditEntriesResponse)
    async def ListAuditEntries(
        self, request: admin_pb.ListAuditEntriesRequest
    ) -> admin_pb.ListAuditEntriesResponse:
        """Lists who changed what, in pages."""
        page, before = admin.to_audit_page(request)
        entries = await self.use_cases.audit_log.entries(request.tenant, before, page.size)
        return admin.from_entries(entries, page)

    async def Check(
        self, request: health_pb2.HealthCheckRequest, grpc_context: CallContext
    ) -> health_pb2.HealthCheckResponse:
        """Reports whether the service can answer: whether PostgreSQL is reachable."""
        del request, grpc_context
        return _health(await self._health.is_ready())

    async def List(
        self, request: health_pb2.HealthListRequest, grpc_context: CallContext
    ) -> health_pb2.HealthListResponse:
        """Reports the health of all services, which is that of the server."""
        del request
        check = await self.Check(health_pb2.HealthCheckRequest(), grpc_context)
        return health_pb2.HealthListResponse(statuses={"": check})

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, grpc_context: CallContext
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Streams the health and each change of it; it ends, and a client then watches again."""
        del request, grpc_context
        with PENDING_CALLS.in_method():
            async with aclosing(self._health.watch()) as watched:
                async for is_ready in watched:
                    yield _health(is_ready)

    async def _answer(
        self,
        call: RetrieveCall,
        run: Callable[[Query, Profile, Deadline], Awaitable[Retrieval]],
    ) -> Retrieval:
        deadline = deadline_after(call.time_budget_s)
        await self._check_vector(call.query)
        retrieval = await run(call.query, call.profile, deadline)
        self._measure(retrieval)
        note_answer(retrieval)
        return retrieval

    async def _check_vector(self, query: Query) -> None:
        if query.vector is None:
            return
        model = await self.use_cases.embedder.model()
        if (given := len(query.vector)) != model.dimension:
            expected = f"must have the model's {model.dimension} dimensions, has {given}"
            raise InvalidRequestError([Violation("vector", expected)])

    def _measure(self, retrieval: Retrieval) -> None:
        self._recent_legs.add(retrieval.reports)
        for report in retrieval.reports:
            labels = {"leg": report.leg, "state": report.state.value}
            self.recorder.record(telemetry.LEG_LATENCY, report.elapsed_s * 1e3, labels)
            self.recorder.record(telemetry.LEG_CANDIDATES, report.candidates, {"leg": report.leg})
        self.recorder.record(telemetry.ANSWERS, 1, {"profile": retrieval.profile})
        for leg in retrieval.legs_alone:
            labels = {"profile": retrieval.profile, "leg": leg}
            self.recorder.record(telemetry.ANSWERS_BY_LEG_ALONE, 1, labels)
        for work in retrieval.shed:
            self.recorder.record(telemetry.SHED, 1, {"work": work})
        if retrieval.rerank is not None:
            labels = {"profile": retrieval.profile, "stage": retrieval.rerank.stage.value}
            self.recorder.record(telemetry.RERANKED_ANSWERS, 1, labels)

    async def _read(self, request: ingest.IngestMessage) -> ingest.IngestCall:
        model = None
        if ingest.has_vectors(request):
            model = await self.use_cases.embedder.model()
        return ingest.to_ingest_call(request, self._now(), model)

    async def _store(self, call: ingest.IngestCall, *, patient: bool = False) -> Ingested | None:
        if not call.batch.items:
            return None
        ingested = await self.use_cases.ingestor.ingest(call.batch, patient=patient)
        for outcome in ingested.outcomes:
            self.recorder.record(telemetry.ITEMS_WRITTEN, 1, {"outcome": outcome})
        return ingested


def _health(is_ready: bool) -> health_pb2.HealthCheckResponse:
    states = health_pb2.HealthCheckResponse
    return states(status=states.SERVING if is_ready else states.NOT_SERVING)
