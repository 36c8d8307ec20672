"""Domain values into responses."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration

from serving.domain.briefing import briefing
from serving.domain.errors import Violation
from serving.domain.ledger import Ledger, LegTerm
from serving.domain.records import Segment
from serving.pipeline.forget import Forgotten
from serving.pipeline.ingest import Ingested
from serving.pipeline.overview import Overview
from serving.pipeline.retrieve import Hit, LegReport, LegState, Retrieval
from serving.rpc.items import from_fact, from_segment, timestamp
from serving.rpc.requests import IngestCall, RetrieveCall
from trivium.v1 import catalog_service_pb2, ingest_service_pb2, retrieval_service_pb2

_LEG_STATES = {
    LegState.OK: retrieval_service_pb2.LEG_STATE_OK,
    LegState.TIMED_OUT: retrieval_service_pb2.LEG_STATE_TIMED_OUT,
    LegState.FAILED: retrieval_service_pb2.LEG_STATE_FAILED,
    LegState.SKIPPED: retrieval_service_pb2.LEG_STATE_SKIPPED,
    LegState.STALE: retrieval_service_pb2.LEG_STATE_STALE,
}

_ITEM_STATES = {
    "created": ingest_service_pb2.ITEM_STATE_CREATED,
    "updated": ingest_service_pb2.ITEM_STATE_UPDATED,
    "unchanged": ingest_service_pb2.ITEM_STATE_UNCHANGED,
}


def duration(seconds: float) -> Duration:
    """Writes seconds."""
    written = Duration()
    written.FromNanoseconds(int(seconds * 1e9))
    return written


def from_retrieval(
    call: RetrieveCall, retrieval: Retrieval
) -> retrieval_service_pb2.RetrieveResponse:
    """Writes the answer to a question."""
    timings = retrieval.timings
    return retrieval_service_pb2.RetrieveResponse(
        hits=[
            _hit(rank, hit, explain=call.explain)
            for rank, hit in enumerate(retrieval.hits, start=1)
        ],
        leg_reports=[_report(report) for report in retrieval.reports],
        statistics=retrieval_service_pb2.Statistics(
            total=duration(timings.total_s),
            embedding=duration(timings.embedding_s),
            loading=duration(timings.loading_s),
            ranking=duration(timings.ranking_s),
            candidate_count=retrieval.candidates,
            folded_count=retrieval.folded,
            vanished_count=retrieval.vanished,
            index_epoch=retrieval.index_epoch,
        ),
        briefing=briefing([hit.item for hit in retrieval.hits], call.briefing)
        if call.briefing
        else "",
        coercions=[
            retrieval_service_pb2.Coercion(field=field, given=given, used=used)
            for field, given, used in call.coercions
        ],
        profile=retrieval.profile,
    )


def _hit(rank: int, hit: Hit, *, explain: bool) -> retrieval_service_pb2.Hit:
    message = retrieval_service_pb2.Hit(
        rank=rank,
        score=hit.score,
        legs=[term.leg for term in hit.ledger.leg_terms],
        folded_ids=[item.id for item in hit.folded],
        ledger=_ledger(hit.ledger) if explain else None,
    )
    if isinstance(hit.item, Segment):
        message.segment.CopyFrom(from_segment(hit.item))
    else:
        message.fact.CopyFrom(from_fact(hit.item))
    return message


def _ledger(ledger: Ledger) -> retrieval_service_pb2.Ledger:
    message = retrieval_service_pb2.Ledger(
        leg_terms=[_leg_term(term) for term in ledger.leg_terms],
        fused_score=ledger.fused_score,
        rank_constant=ledger.rank_constant,
    )
    if ledger.importance is not None:
        message.importance.importance = ledger.importance.importance
        message.importance.multiplier = ledger.importance.multiplier
        message.importance.boost = ledger.importance.boost
    if ledger.decay is not None:
        message.decay.age.CopyFrom(duration(ledger.decay.age_s))
        message.decay.half_life.CopyFrom(duration(ledger.decay.half_life_s))
        message.decay.floor = ledger.decay.floor
        message.decay.multiplier = ledger.decay.multiplier
    if ledger.diversity is not None:
        setattr(message.diversity, "lambda", ledger.diversity.trade_off)
        message.diversity.relevance = ledger.diversity.relevance
        message.diversity.max_similarity = ledger.diversity.max_similarity
        message.diversity.value = ledger.diversity.value
    return message


def _leg_term(term: LegTerm) -> retrieval_service_pb2.LegTerm:
    return retrieval_service_pb2.LegTerm(
        leg=term.leg,
        rank=term.rank,
        weight=term.weight,
        leg_score=term.leg_score,
        term=term.term,
        path=term.path,
        fact_ids=term.facts,
    )


def _report(report: LegReport) -> retrieval_service_pb2.LegReport:
    return retrieval_service_pb2.LegReport(
        leg=report.leg,
        state=_LEG_STATES[report.state],
        reason=report.reason,
        candidate_count=report.candidates,
        below_floor_count=report.below_floor,
        elapsed=duration(report.elapsed_s),
        set_aside_count=report.set_aside,
    )


def from_ingested(call: IngestCall, ingested: Ingested | None) -> ingest_service_pb2.IngestResponse:
    """Writes what became of a batch; `ingested` is None if every item was rejected."""
    outcomes = {
        place: rejected_outcome(place, id_, violations)
        for place, (id_, violations) in call.rejected.items()
    }
    if ingested is not None:
        for (place, item), outcome in zip(call.items, ingested.outcomes, strict=True):
            outcomes[place] = ingest_service_pb2.ItemOutcome(
                index=place, id=item.id, state=_ITEM_STATES[outcome]
            )
    return ingest_service_pb2.IngestResponse(
        outcomes=[outcome for _, outcome in sorted(outcomes.items())],
        consistency_token=str(ingested.token) if ingested is not None else "",
    )


def rejected_outcome(
    place: int, id_: str, violations: Sequence[Violation]
) -> ingest_service_pb2.ItemOutcome:
    """Writes why an item was rejected."""
    return ingest_service_pb2.ItemOutcome(
        index=place,
        id=id_,
        state=ingest_service_pb2.ITEM_STATE_REJECTED,
        violations=[
            ingest_service_pb2.ItemViolation(field=field, description=description)
            for field, description in violations
        ],
    )


def from_forgotten(forgotten: Forgotten) -> ingest_service_pb2.ForgetResponse:
    """Writes the receipt of an erasure."""
    return ingest_service_pb2.ForgetResponse(
        segment_count=forgotten.segments,
        fact_count=forgotten.facts,
        receipts=[
            ingest_service_pb2.StoreReceipt(
                store=receipt.store,
                verified=receipt.verified,
                remaining_count=receipt.remaining,
                reason=receipt.reason,
            )
            for receipt in forgotten.receipts
        ],
        consistency_token=str(forgotten.token),
    )


def from_overview(overview: Overview) -> catalog_service_pb2.GetStatsResponse:
    """Writes how the service is."""
    counts = overview.tenant
    return catalog_service_pb2.GetStatsResponse(
        tenant=catalog_service_pb2.TenantStats(
            segment_count=counts.segments,
            sensitive_segment_count=counts.sensitive_segments,
            fact_count=counts.facts,
            entity_count=overview.entities,
            embedded_count=counts.embedded,
            embeddable_count=counts.embeddable,
            text_search_config=counts.text_search_config,
        ),
        projections=[
            catalog_service_pb2.ProjectionStats(
                projection=status.projection,
                pending_count=status.pending,
                lag=duration(status.lag_s),
                set_aside_count=status.set_aside,
            )
            for status in overview.projections
        ],
        index=catalog_service_pb2.IndexStats(
            ready=overview.index.ready,
            vector_count=overview.index.vector_count,
            epoch=overview.index.epoch,
            reason=overview.index.reason,
        ),
        service=catalog_service_pb2.ServiceStats(
            version=overview.about.version,
            placement=overview.about.placement,
            ingress=overview.about.ingress,
            model_fingerprint=overview.model.fingerprint if overview.model else "",
            dimension=overview.model.dimension if overview.model else 0,
            started_at=timestamp(overview.about.started_at),
            degraded=overview.degraded,
        ),
        set_aside=[
            catalog_service_pb2.SetAsideRow(
                projection=row.projection,
                id=row.item.id,
                reason=row.reason,
                set_aside_at=timestamp(row.at),
            )
            for row in overview.set_aside
        ],
    )
