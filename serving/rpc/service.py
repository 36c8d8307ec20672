"""The methods of the API: read the request, ask the pipeline, write the response."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from grpc_health.v1 import health_pb2

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import InvalidRequestError, Violation
from serving.domain.query import Query
from serving.domain.records import Segment, segment_id
from serving.pipeline.absence import AbsenceExplainer
from serving.pipeline.forget import Eraser
from serving.pipeline.ingest import Ingested, Ingestor
from serving.pipeline.overview import Observer
from serving.pipeline.retrieve import Retrieval, Retriever
from serving.ports import Catalog, Embedder, MemoryStore
from serving.profiles import ProfileBook
from serving.rpc import answers, questions, requests, responses
from serving.rpc.boundary import CallContext, answer
from serving.rpc.items import from_fact, from_segment
from serving.rpc.questions import RetrieveCall
from serving.rpc.registration import Malformed
from serving.telemetry import (
    ANSWERS,
    ANSWERS_BY_LEG_ALONE,
    ITEMS_WRITTEN,
    LEG_CANDIDATES,
    LEG_LATENCY,
    RERANKED_ANSWERS,
    NoRecorder,
    Recorder,
)
from trivium.v1 import catalog_service_pb2, ingest_service_pb2, retrieval_service_pb2

logger = logging.getLogger(__name__)

READ_BUDGET_S = 5.0
FORGET_BUDGET_S = 10.0
HEALTH_POLL_S = 1.0
MAX_REJECTED_LISTED = 100


def now_utc() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


def _profiles_of(user_config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The changes of profiles in a configuration, which has nothing else.

    Raises:
        ValueError: It has.
    """
    if unknown := [name for name in user_config if name != "profiles"]:
        raise ValueError(f"{unknown[0]!r} cannot be configured; there is profiles")
    changes: Mapping[str, Any] = user_config.get("profiles", {})
    return changes


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCases:
    """What the methods stand on."""

    retriever: Retriever
    explainer: AbsenceExplainer
    ingestor: Ingestor
    eraser: Eraser
    observer: Observer
    store: MemoryStore
    catalog: Catalog
    embedder: Embedder


class TriviumService:
    """All methods of the API, for any server that hands them a request and a context.

    Ray Serve routes by method name, so the names are unique over all services.

    Attributes:
        profiles: Those that requests can name; `reconfigure` changes them.
        refused_profiles: Why the last change of them was refused; empty if it was not.
    """

    def __init__(
        self,
        use_cases: UseCases,
        profiles: ProfileBook,
        *,
        recorder: Recorder | None = None,
        now: Callable[[], datetime] = now_utc,
    ) -> None:
        self._use_cases = use_cases
        self._first_profiles = profiles
        self.profiles = profiles
        self.refused_profiles = ""
        self._recorder = recorder or NoRecorder()
        self._now = now

    def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Takes over `{"profiles": {name: fields to change}}`, laid over the profiles of the start.

        What is malformed changes nothing: the profiles before stay in use, and the log and
        GetStats say why.
        """
        try:
            changed = self._first_profiles.reconfigured(_profiles_of(user_config))
            changed.log_notes()
        except ValueError as error:
            self.refused_profiles = str(error)
            logger.error("profiles refused", extra={"reason": self.refused_profiles})
        except Exception:
            # Whatever it is. Raised, Serve would end the replica and start it again with the
            # same configuration, for ever: one odd value would take the whole service down.
            self.refused_profiles = "they cannot be read; the log has the error"
            logger.exception("profiles refused")
        else:
            self.profiles = changed
            self.refused_profiles = ""

    async def Retrieve(  # noqa: N802 - the name of the RPC
        self, request: retrieval_service_pb2.RetrieveRequest, context: CallContext
    ) -> retrieval_service_pb2.RetrieveResponse:
        """Answers a question."""
        response = retrieval_service_pb2.RetrieveResponse
        return await answer(self._retrieve, response, request, context, self._recorder)

    async def ListProfiles(  # noqa: N802
        self, request: retrieval_service_pb2.ListProfilesRequest, context: CallContext
    ) -> retrieval_service_pb2.ListProfilesResponse:
        """Lists the ranking profiles."""
        response = retrieval_service_pb2.ListProfilesResponse
        return await answer(self._list_profiles, response, request, context, self._recorder)

    async def Compare(  # noqa: N802
        self, request: retrieval_service_pb2.CompareRequest, context: CallContext
    ) -> retrieval_service_pb2.CompareResponse:
        """Answers a question under two profiles."""
        response = retrieval_service_pb2.CompareResponse
        return await answer(self._compare, response, request, context, self._recorder)

    async def ExplainAbsence(  # noqa: N802
        self, request: retrieval_service_pb2.ExplainAbsenceRequest, context: CallContext
    ) -> retrieval_service_pb2.ExplainAbsenceResponse:
        """Says why an item is not in an answer."""
        response = retrieval_service_pb2.ExplainAbsenceResponse
        return await answer(self._explain_absence, response, request, context, self._recorder)

    async def Ingest(  # noqa: N802
        self, request: ingest_service_pb2.IngestRequest, context: CallContext
    ) -> ingest_service_pb2.IngestResponse:
        """Stores a batch."""
        response = ingest_service_pb2.IngestResponse
        return await answer(self._ingest, response, request, context, self._recorder)

    async def IngestStream(  # noqa: N802
        self,
        request: AsyncIterator[ingest_service_pb2.IngestStreamRequest],
        context: CallContext,
    ) -> ingest_service_pb2.IngestStreamResponse:
        """Stores a stream of batches."""
        response = ingest_service_pb2.IngestStreamResponse
        return await answer(self._ingest_stream, response, request, context, self._recorder)

    async def Forget(  # noqa: N802
        self, request: ingest_service_pb2.ForgetRequest, context: CallContext
    ) -> ingest_service_pb2.ForgetResponse:
        """Erases, and gives a receipt."""
        response = ingest_service_pb2.ForgetResponse
        return await answer(self._forget, response, request, context, self._recorder)

    async def GetSegments(  # noqa: N802
        self, request: catalog_service_pb2.GetSegmentsRequest, context: CallContext
    ) -> catalog_service_pb2.GetSegmentsResponse:
        """Reads segments by id."""
        response = catalog_service_pb2.GetSegmentsResponse
        return await answer(self._get_segments, response, request, context, self._recorder)

    async def ListSegments(  # noqa: N802
        self, request: catalog_service_pb2.ListSegmentsRequest, context: CallContext
    ) -> catalog_service_pb2.ListSegmentsResponse:
        """Lists segments in pages."""
        response = catalog_service_pb2.ListSegmentsResponse
        return await answer(self._list_segments, response, request, context, self._recorder)

    async def ListFacts(  # noqa: N802
        self, request: catalog_service_pb2.ListFactsRequest, context: CallContext
    ) -> catalog_service_pb2.ListFactsResponse:
        """Lists facts in pages."""
        response = catalog_service_pb2.ListFactsResponse
        return await answer(self._list_facts, response, request, context, self._recorder)

    async def GetStats(  # noqa: N802
        self, request: catalog_service_pb2.GetStatsRequest, context: CallContext
    ) -> catalog_service_pb2.GetStatsResponse:
        """Says how the service is."""
        response = catalog_service_pb2.GetStatsResponse
        return await answer(self._get_stats, response, request, context, self._recorder)

    async def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: CallContext
    ) -> health_pb2.HealthCheckResponse:
        """Says whether questions can be answered: whether PostgreSQL is there."""
        del request, context
        return health_pb2.HealthCheckResponse(status=await self._health())

    async def List(  # noqa: N802
        self, request: health_pb2.HealthListRequest, context: CallContext
    ) -> health_pb2.HealthListResponse:
        """Says it of all services, which are one."""
        del request
        check = await self.Check(health_pb2.HealthCheckRequest(), context)
        return health_pb2.HealthListResponse(statuses={"": check})

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: CallContext
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Says it again each time it changes."""
        del request, context
        last = None
        while True:
            health = await self._health()
            if health != last:
                last = health
                yield health_pb2.HealthCheckResponse(status=health)
            await asyncio.sleep(HEALTH_POLL_S)

    async def _health(self) -> health_pb2.HealthCheckResponse.ServingStatus:
        states = health_pb2.HealthCheckResponse
        if await self._use_cases.store.ready():
            return states.SERVING
        return states.NOT_SERVING

    async def _retrieve(
        self, request: retrieval_service_pb2.RetrieveRequest
    ) -> retrieval_service_pb2.RetrieveResponse:
        call = questions.to_retrieve_call(request, self.profiles, self._now())
        deadline = Deadline.after(call.time_budget_s)
        return answers.from_retrieval(call, await self._answer(call, deadline))

    async def _answer(self, call: RetrieveCall, deadline: Deadline) -> Retrieval:
        await self._check_vector(call.query)
        retrieval = await self._use_cases.retriever.retrieve(call.query, call.profile, deadline)
        self._measure(retrieval)
        return retrieval

    async def _list_profiles(
        self, request: retrieval_service_pb2.ListProfilesRequest
    ) -> retrieval_service_pb2.ListProfilesResponse:
        del request
        return answers.from_profiles(self.profiles)

    async def _compare(
        self, request: retrieval_service_pb2.CompareRequest
    ) -> retrieval_service_pb2.CompareResponse:
        call = questions.to_compare_call(request, self.profiles, self._now())
        deadline = Deadline.after(call.retrieve.time_budget_s)
        retrieved, against = await asyncio.gather(
            self._answer(call.retrieve, deadline), self._answer(call.against, deadline)
        )
        return answers.from_comparison(call, retrieved, against)

    async def _explain_absence(
        self, request: retrieval_service_pb2.ExplainAbsenceRequest
    ) -> retrieval_service_pb2.ExplainAbsenceResponse:
        call = questions.to_explain_absence_call(request, self.profiles, self._now())
        asked = call.retrieve
        await self._check_vector(asked.query)
        deadline = Deadline.after(asked.time_budget_s)
        absence = await self._use_cases.explainer.explain(
            asked.query, asked.profile, call.item, deadline
        )
        return answers.from_absence(absence)

    async def _check_vector(self, query: Query) -> None:
        if query.vector is None:
            return
        model = await self._use_cases.embedder.model()
        if (given := len(query.vector)) != model.dimension:
            expected = f"must have the model's {model.dimension} dimensions, has {given}"
            raise InvalidRequestError([Violation("vector", expected)])

    def _measure(self, retrieval: Retrieval) -> None:
        for report in retrieval.reports:
            labels = {"leg": report.leg, "state": report.state.value}
            self._recorder.record(LEG_LATENCY, report.elapsed_s * 1e3, labels)
            self._recorder.record(LEG_CANDIDATES, report.candidates, {"leg": report.leg})
        self._recorder.record(ANSWERS, 1, {"profile": retrieval.profile})
        for leg in retrieval.legs_alone:
            labels = {"profile": retrieval.profile, "leg": leg}
            self._recorder.record(ANSWERS_BY_LEG_ALONE, 1, labels)
        if retrieval.rerank is not None:
            labels = {"profile": retrieval.profile, "stage": retrieval.rerank.stage.value}
            self._recorder.record(RERANKED_ANSWERS, 1, labels)

    async def _ingest(
        self, request: ingest_service_pb2.IngestRequest
    ) -> ingest_service_pb2.IngestResponse:
        call = requests.to_ingest_call(request, self._now())
        return responses.from_ingested(call, await self._store(call))

    async def _store(self, call: requests.IngestCall) -> Ingested | None:
        if not call.items:
            return None
        items = [item for _, item in call.items]
        ingested = await self._use_cases.ingestor.ingest(
            call.tenant,
            items,
            call.text_search_config,
            frozenset(call.undated),
        )
        for outcome in ingested.outcomes:
            self._recorder.record(ITEMS_WRITTEN, 1, {"outcome": outcome})
        return ingested

    async def _ingest_stream(
        self, stream: AsyncIterator[ingest_service_pb2.IngestStreamRequest | Malformed]
    ) -> ingest_service_pb2.IngestStreamResponse:
        response = ingest_service_pb2.IngestStreamResponse()
        token: ConsistencyToken | None = None
        before = 0
        async for request in stream:
            if isinstance(request, Malformed):
                request.refuse()
            call = requests.to_ingest_call(request, self._now())
            ingested = await self._store(call)
            if ingested is not None:
                token = ingested.token if token is None else token.merged(ingested.token)
                response.created_count += ingested.outcomes.count("created")
                response.updated_count += ingested.outcomes.count("updated")
                response.unchanged_count += ingested.outcomes.count("unchanged")
            response.rejected_count += len(call.rejected)
            room = MAX_REJECTED_LISTED - len(response.rejected)
            response.rejected.extend(
                responses.rejected_outcome(before + place, id_, violations)
                for place, (id_, violations) in list(call.rejected.items())[:room]
            )
            before += len(request.items)
        response.consistency_token = str(token) if token is not None else ""
        return response

    async def _forget(
        self, request: ingest_service_pb2.ForgetRequest
    ) -> ingest_service_pb2.ForgetResponse:
        tenant, selector = requests.to_selector(request)
        deadline = Deadline.after(FORGET_BUDGET_S)
        forgotten = await self._use_cases.eraser.forget(tenant, selector, deadline)
        return responses.from_forgotten(forgotten)

    async def _get_segments(
        self, request: catalog_service_pb2.GetSegmentsRequest
    ) -> catalog_service_pb2.GetSegmentsResponse:
        tenant, ids = requests.to_ids(request)
        names = [segment_id(id_) for id_ in ids]
        rows = await self._use_cases.store.load(tenant, names, Deadline.after(READ_BUDGET_S))
        found = [row for name in names if isinstance(row := rows.get(name), Segment)]
        return catalog_service_pb2.GetSegmentsResponse(
            segments=[from_segment(row) for row in found],
            missing_ids=[name.id for name in names if name not in rows],
        )

    async def _list_segments(
        self, request: catalog_service_pb2.ListSegmentsRequest
    ) -> catalog_service_pb2.ListSegmentsResponse:
        page = requests.to_segment_page(request)
        rows = await self._use_cases.catalog.list_segments(
            page.tenant, page.filter, page.after, page.size
        )
        return catalog_service_pb2.ListSegmentsResponse(
            segments=[from_segment(row) for row in rows],
            next_page_token=requests.page_token(rows[-1].id) if len(rows) == page.size else "",
        )

    async def _list_facts(
        self, request: catalog_service_pb2.ListFactsRequest
    ) -> catalog_service_pb2.ListFactsResponse:
        page = requests.to_fact_page(request)
        rows = await self._use_cases.catalog.list_facts(
            page.tenant, page.entities, page.valid_at, page.after, page.size
        )
        return catalog_service_pb2.ListFactsResponse(
            facts=[from_fact(row) for row in rows],
            next_page_token=requests.page_token(rows[-1].id) if len(rows) == page.size else "",
        )

    async def _get_stats(
        self, request: catalog_service_pb2.GetStatsRequest
    ) -> catalog_service_pb2.GetStatsResponse:
        tenant = requests.to_stats_tenant(request)
        overview = await self._use_cases.observer.overview(tenant)
        if self.refused_profiles:
            overview.degraded.append(f"profiles: {self.refused_profiles}")
        return responses.from_overview(overview)
