"""The RPCs of RetrievalService: each reads its request, calls the pipeline and writes the response.

`retrieve.py` reads queries and writes answers, of all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from google.protobuf.json_format import ParseDict

from serving import telemetry
from serving.config.profiles import ProfileBook
from serving.domain.briefing import BriefingLimits, fitted
from serving.domain.budget import Deadline
from serving.domain.errors import InvalidRequestError, TriviumError, Violation
from serving.domain.items.records import MAX_NAME_BYTES, Fact, ItemId, Segment
from serving.domain.questions.query import Filter, Query, Scope
from serving.domain.ranking.profile import Profile
from serving.domain.ranking.reachability import notes
from serving.pipeline.retrieval.describe import Description
from serving.pipeline.retrieval.explain_absence import Absence
from serving.pipeline.retrieval.newest import newest_answers
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.steps import Retrieval
from serving.pipeline.retrieval.warm import QUESTION
from serving.rpc.boundary import deadline_after, rpc, streaming_rpc
from serving.rpc.check import Checker
from serving.rpc.items import duration, from_fact, from_reference, from_segment, to_reference
from serving.rpc.pages import read_page
from serving.rpc.registration import Malformed
from serving.rpc.retrieve import (
    LEG_STATES,
    RetrieveCall,
    from_hit,
    from_retrieval,
    to_inner_call,
    to_max_chars,
    to_retrieve_call,
    to_time_budget,
    to_token,
)
from serving.rpc.status import to_status
from serving.rpc.tracing import note_answer
from serving.rpc.use_cases import Rpcs
from trivium.v1 import retrieval_service_pb2 as pb

MAX_REQUESTS = 16
"""The most requests of a RetrieveBatch."""
MAX_STREAMED = 1000
"""The most requests of a RetrieveStream: five minutes of transcripts every 300 ms."""

_LOSSES = {loss: getattr(pb, f"LOSS_{loss.name}") for loss in Loss}


class RetrievalService(Rpcs):
    """Queries, and what is about them."""

    @rpc
    async def Retrieve(self, request: pb.RetrieveRequest) -> pb.RetrieveResponse:
        """Runs a query."""
        call = to_retrieve_call(request, self.profiles, self._now())
        retrieval = await self._answer(call, self.use_cases.retriever.retrieve)
        return from_retrieval(call, retrieval)

    @rpc
    async def RetrieveBatch(self, request: pb.RetrieveBatchRequest) -> pb.RetrieveBatchResponse:
        """Runs several queries of a tenant at once."""
        results = map(self._result, to_requests(request))
        return pb.RetrieveBatchResponse(results=await asyncio.gather(*results))

    async def _result(self, request: pb.RetrieveRequest) -> pb.BatchResult:
        try:
            call = to_retrieve_call(request, self.profiles, self._now())
            retrieval = await self._answer(call, self.use_cases.retriever.retrieve)
        except TriviumError as error:
            status = to_status(error)
            failed = pb.BatchError(code=status.code, message=status.message)
            return pb.BatchResult(error=failed)
        return pb.BatchResult(response=from_retrieval(call, retrieval))

    @streaming_rpc
    async def RetrieveStream(
        self, stream: AsyncIterator[pb.RetrieveStreamRequest | Malformed]
    ) -> AsyncGenerator[pb.RetrieveStreamResponse, None]:
        """Runs the newest query of a stream."""
        answered = newest_answers(self._streamed(stream), self._anticipate)
        async with aclosing(answered):
            async for call, retrieval in answered:
                if call.final:
                    self.use_cases.retriever.record_access(call.retrieve.query, retrieval)
                yield pb.RetrieveStreamResponse(
                    retrieved=from_retrieval(call.retrieve, retrieval),
                    request_number=call.number,
                    final=call.final,
                )

    async def _streamed(
        self, stream: AsyncIterator[pb.RetrieveStreamRequest | Malformed]
    ) -> AsyncIterator[StreamedCall]:
        number = 0
        async for request in stream:
            number += 1
            if isinstance(request, Malformed):
                raise request.error()
            yield to_streamed_call(request, number, self.profiles, self._now())

    async def _anticipate(self, call: StreamedCall) -> Retrieval:
        return await self._answer(call.retrieve, self.use_cases.retriever.preview)

    @rpc
    async def Warm(self, request: pb.WarmRequest) -> pb.WarmResponse:
        """Prepares for the first query of a tenant."""
        call = to_warm_call(request, self.profiles, self._now())
        deadline = deadline_after(call.time_budget_s)
        warmed = await self.use_cases.warmer.warm(call.query, call.profile, deadline)
        parts = [
            pb.WarmPart(
                part=each.part, warm=each.warm, reason=each.reason, elapsed=duration(each.elapsed_s)
            )
            for each in warmed
        ]
        return pb.WarmResponse(parts=parts, profile=call.profile.name)

    @rpc
    async def DescribeEntity(self, request: pb.DescribeEntityRequest) -> pb.DescribeEntityResponse:
        """Returns what holds now about somebody."""
        started = time.perf_counter()
        call = to_describe_call(request, self._now())
        deadline = deadline_after(call.time_budget_s)
        description = await self.use_cases.describer.describe(call.query, deadline)
        return from_description(call, description, time.perf_counter() - started)

    @rpc
    async def ListProfiles(self, request: pb.ListProfilesRequest) -> pb.ListProfilesResponse:
        """Lists the ranking profiles, with their definitions, in pages."""
        page = read_page(request)
        names = sorted(name for name in self.profiles if name > page.after)[: page.size]
        response = pb.ListProfilesResponse(next_page_token=page.next_token(names))
        for name in names:
            profile = self.profiles[name]
            message = response.profiles.add(name=name, description=profile.description)
            ParseDict(self.profiles.definition(name), message.definition)
            for leg, text in notes(profile):
                message.notes.add(leg=leg, text=text)
        return response

    @rpc
    async def Compare(self, request: pb.CompareRequest) -> pb.CompareResponse:
        """Runs a query under two profiles."""
        calls = to_compare_call(request, self.profiles, self._now())
        preview = self.use_cases.retriever.preview
        retrieved = await asyncio.gather(*(self._answer(call, preview) for call in calls))
        return from_comparison(*zip(calls, retrieved, strict=True))

    @rpc
    async def ExplainAbsence(self, request: pb.ExplainAbsenceRequest) -> pb.ExplainAbsenceResponse:
        """Reports why an item is not a hit."""
        call, item = to_explain_absence_call(request, self.profiles, self._now())
        await self._check_vector(call.query)
        deadline = deadline_after(call.time_budget_s)
        explain = self.use_cases.explainer.explain
        return from_absence(await explain(call.query, call.profile, item, deadline))

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


def to_requests(batch: pb.RetrieveBatchRequest) -> Sequence[pb.RetrieveRequest]:
    """Reads the requests of a batch, and sets their tenant."""
    with Checker() as check:
        tenant = check.tenant(batch.tenant)
        if not 0 < len(batch.requests) <= MAX_REQUESTS:
            check.reject("requests", f"must be 1 to {MAX_REQUESTS}, are {len(batch.requests)}")
        for place, request in enumerate(batch.requests[:MAX_REQUESTS]):
            if request.tenant not in ("", tenant):
                check.reject(f"requests[{place}].tenant", "must be empty, or that of the batch")
            if request.tenants:
                check.reject(f"requests[{place}].tenants", "must be empty in a batch")
    for request in batch.requests:
        request.tenant = tenant
    return batch.requests


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedCall:
    """A checked RetrieveStreamRequest, with its message and its number."""

    retrieve: RetrieveCall
    message: pb.RetrieveRequest
    number: int
    final: bool

    def repeats(self, earlier: StreamedCall) -> bool:
        """Whether both ask the same."""
        return self.message == earlier.message


def to_streamed_call(
    request: pb.RetrieveStreamRequest, number: int, profiles: ProfileBook, now: datetime
) -> StreamedCall:
    """Reads a RetrieveStreamRequest, which is the given one of its stream, from 1."""
    if number >= MAX_STREAMED and not request.final:
        raise InvalidRequestError(
            [Violation("final", f"must be true in request {MAX_STREAMED} at the latest")]
        )
    return StreamedCall(
        retrieve=to_inner_call(request.retrieve, profiles, now),
        message=request.retrieve,
        number=number,
        final=request.final,
    )


def to_warm_call(request: pb.WarmRequest, profiles: ProfileBook, now: datetime) -> RetrieveCall:
    """Reads a WarmRequest, as a RetrieveRequest that asks nothing in particular."""
    asking = pb.RetrieveRequest(
        tenant=request.tenant,
        query=QUESTION,
        profile=request.profile,
        time_budget=request.time_budget if request.HasField("time_budget") else None,
    )
    return to_retrieve_call(asking, profiles, now)


def to_compare_call(
    request: pb.CompareRequest, profiles: ProfileBook, now: datetime
) -> tuple[RetrieveCall, RetrieveCall]:
    """Reads a CompareRequest: one query under two profiles."""
    _require_one_tenant(request.retrieve)
    other = pb.RetrieveRequest()
    other.CopyFrom(request.retrieve)
    other.profile = request.against or request.retrieve.profile
    other.ClearField("leg_overrides")
    other.profile_overrides.CopyFrom(request.against_overrides)
    names = {"profile": "against", "profile_overrides": "against_overrides"}
    retrieve = to_inner_call(request.retrieve, profiles, now)
    return retrieve, to_inner_call(other, profiles, now, **names)


def from_comparison(
    retrieved: tuple[RetrieveCall, Retrieval], against: tuple[RetrieveCall, Retrieval]
) -> pb.CompareResponse:
    """Writes the results of one query under two profiles, and their differences."""
    ranks, against_ranks = (
        {hit.item.item: rank for rank, hit in enumerate(retrieval.hits, start=1)}
        for _, retrieval in (retrieved, against)
    )
    items = dict.fromkeys([*ranks, *against_ranks])
    shared = ranks.keys() & against_ranks.keys()
    return pb.CompareResponse(
        retrieved=from_retrieval(*retrieved),
        against=from_retrieval(*against),
        overlap=len(shared) / len(items) if items else 1.0,
        rank_changes=[
            pb.RankChange(
                item=from_reference(item),
                rank=ranks.get(item),
                against_rank=against_ranks.get(item),
            )
            for item in items
        ],
    )


def to_explain_absence_call(
    request: pb.ExplainAbsenceRequest, profiles: ProfileBook, now: datetime
) -> tuple[RetrieveCall, ItemId]:
    """Reads an ExplainAbsenceRequest."""
    _require_one_tenant(request.retrieve)
    with Checker() as check:
        item = to_reference(check, "item", request.item)
    return to_inner_call(request.retrieve, profiles, now), item


def _require_one_tenant(request: pb.RetrieveRequest) -> None:
    """Rejects a request to several tenants, for an RPC whose answer is about the items of one."""
    with Checker() as check:
        if request.tenants:
            check.reject("retrieve.tenants", "must be empty; only one tenant can be asked here")


def from_absence(absence: Absence) -> pb.ExplainAbsenceResponse:
    """Writes why an item is missing."""
    hit = absence.hit
    return pb.ExplainAbsenceResponse(
        loss=_LOSSES[absence.loss],
        reason=absence.reason,
        by=from_reference(absence.by) if absence.by is not None else None,
        rank=absence.rank,
        hit=from_hit(absence.rank or 0, hit, explain=True) if hit is not None else None,
        legs=[
            pb.LegAbsence(
                leg=leg.leg,
                state=LEG_STATES[leg.state],
                rank=leg.rank,
                score=leg.score,
                depth=leg.depth,
                reason=leg.reason,
            )
            for leg in absence.legs
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCall:
    """A checked DescribeEntityRequest; the text of the query is the name."""

    query: Query
    time_budget_s: float
    limits: BriefingLimits


def to_describe_call(request: pb.DescribeEntityRequest, now: datetime) -> DescribeCall:
    """Reads a DescribeEntityRequest."""
    with Checker() as check:
        who = request.WhichOneof("who")
        name = ""
        if who is None:
            check.reject("who", "must have one of speaker, entity")
        else:
            name = check.text(who, getattr(request, who), MAX_NAME_BYTES, required=True)
        names = (name,) if name else ()
        query = Query(
            scope=Scope(
                tenant=check.tenant(request.tenant),
                as_of=check.optional_instant("as_of", request) or now,
                filter=Filter(speakers=names) if who == "speaker" else Filter(entities=names),
                known_at=check.optional_instant("known_at", request),
            ),
            text=name,
            token=to_token(check, request.consistency_token),
            time_zone=check.time_zone("time_zone", request.time_zone),
        )
        return DescribeCall(
            query=query,
            time_budget_s=to_time_budget(check, request, []),
            limits=BriefingLimits(to_max_chars(check, "max_chars", request.max_chars)),
        )


def from_description(
    call: DescribeCall, description: Description, elapsed_s: float
) -> pb.DescribeEntityResponse:
    """Writes what the block has room for."""
    block, count = fitted(description.items, description.query, call.limits)
    shown = description.items[:count]
    return pb.DescribeEntityResponse(
        facts=[from_fact(item) for item in shown if isinstance(item, Fact)],
        statements=[from_segment(item) for item in shown if isinstance(item, Segment)],
        briefing=block,
        elapsed=duration(elapsed_s),
    )
