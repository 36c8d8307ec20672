"""Domain values into the responses of asking."""

from __future__ import annotations

from google.protobuf.json_format import ParseDict

from serving.domain.briefing import briefing
from serving.domain.comparison import RankChange, compare
from serving.domain.ledger import FusionMethod, Ledger, LegTerm, worth
from serving.domain.reachability import notes
from serving.domain.records import ItemKind, Segment
from serving.domain.signals import SIGNALS
from serving.pipeline.absence import Absence, Loss
from serving.pipeline.asking import LegReport, LegState
from serving.pipeline.leg_absence import LegAbsence
from serving.pipeline.ordering import Hit, Stage
from serving.pipeline.rerank import RerankReport
from serving.pipeline.retrieve import Retrieval
from serving.profiles import ProfileBook
from serving.rpc.items import duration, from_fact, from_segment
from serving.rpc.questions import CompareCall, RetrieveCall
from trivium.v1 import retrieval_service_pb2

_LEG_STATES = {
    LegState.OK: retrieval_service_pb2.LEG_STATE_OK,
    LegState.TIMED_OUT: retrieval_service_pb2.LEG_STATE_TIMED_OUT,
    LegState.FAILED: retrieval_service_pb2.LEG_STATE_FAILED,
    LegState.SKIPPED: retrieval_service_pb2.LEG_STATE_SKIPPED,
    LegState.STALE: retrieval_service_pb2.LEG_STATE_STALE,
    LegState.PARTIAL: retrieval_service_pb2.LEG_STATE_PARTIAL,
}

_STAGES = {
    None: retrieval_service_pb2.STAGE_UNSPECIFIED,
    Stage.RERANKED: retrieval_service_pb2.STAGE_RERANKED,
    Stage.COARSE: retrieval_service_pb2.STAGE_COARSE,
    Stage.COARSE_FALLBACK: retrieval_service_pb2.STAGE_COARSE_FALLBACK,
}

_METHODS = {
    FusionMethod.RECIPROCAL_RANK: retrieval_service_pb2.FUSION_METHOD_RECIPROCAL_RANK,
    FusionMethod.CONVEX: retrieval_service_pb2.FUSION_METHOD_CONVEX,
    FusionMethod.SCORE: retrieval_service_pb2.FUSION_METHOD_SCORE,
}

_LOSSES = {loss: getattr(retrieval_service_pb2, f"LOSS_{loss.name}") for loss in Loss}


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
            reranking=duration(timings.reranking_s),
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
            for field, given, used in (
                *call.coercions,
                *(("query", heard.given, heard.used) for heard in retrieval.heard),
            )
        ],
        profile=retrieval.profile,
        rerank=_rerank_report(retrieval.rerank) if retrieval.rerank is not None else None,
    )


def from_profiles(profiles: ProfileBook) -> retrieval_service_pb2.ListProfilesResponse:
    """Writes the profiles as data."""
    response = retrieval_service_pb2.ListProfilesResponse()
    for name, profile in sorted(profiles.items()):
        message = response.profiles.add(name=name, description=profile.description)
        ParseDict(profiles.definition(name), message.definition)
        for leg, text in notes(profile):
            message.notes.add(leg=leg, text=text)
    return response


def from_comparison(
    call: CompareCall, retrieved: Retrieval, against: Retrieval
) -> retrieval_service_pb2.CompareResponse:
    """Writes two answers to one question, side by side."""
    comparison = compare(
        [hit.item.item for hit in retrieved.hits], [hit.item.item for hit in against.hits]
    )
    return retrieval_service_pb2.CompareResponse(
        retrieved=from_retrieval(call.retrieve, retrieved),
        against=from_retrieval(call.against, against),
        overlap=comparison.overlap,
        rank_changes=[_rank_change(change) for change in comparison.changes],
    )


def from_absence(absence: Absence) -> retrieval_service_pb2.ExplainAbsenceResponse:
    """Writes where an item was lost."""
    return retrieval_service_pb2.ExplainAbsenceResponse(
        loss=_LOSSES[absence.loss],
        reason=absence.reason,
        by_id=absence.by.id if absence.by is not None else "",
        rank=absence.rank,
        hit=_hit(absence.rank or 0, absence.hit, explain=True) if absence.hit is not None else None,
        legs=[_leg_absence(leg) for leg in absence.legs],
    )


def _rank_change(change: RankChange) -> retrieval_service_pb2.RankChange:
    message = retrieval_service_pb2.RankChange(rank=change.left, against_rank=change.right)
    if change.item.kind is ItemKind.SEGMENT:
        message.segment_id = change.item.id
    else:
        message.fact_id = change.item.id
    return message


def _leg_absence(leg: LegAbsence) -> retrieval_service_pb2.LegAbsence:
    return retrieval_service_pb2.LegAbsence(
        leg=leg.leg,
        state=_LEG_STATES[leg.state],
        rank=leg.rank,
        score=leg.score,
        depth=leg.depth,
        reason=leg.reason,
    )


def _rerank_report(report: RerankReport) -> retrieval_service_pb2.RerankReport:
    return retrieval_service_pb2.RerankReport(
        stage=_STAGES[report.stage],
        reason=report.reason,
        hit_count=report.hits,
        elapsed=duration(report.elapsed_s),
    )


def _hit(rank: int, hit: Hit, *, explain: bool) -> retrieval_service_pb2.Hit:
    message = retrieval_service_pb2.Hit(
        rank=rank,
        score=hit.score,
        legs=[term.leg for term in hit.ledger.leg_terms if term.leg not in SIGNALS],
        folded_ids=[item.id for item in hit.folded],
        ledger=_ledger(hit.ledger) if explain else None,
        stage=_STAGES[hit.stage],
    )
    if isinstance(hit.item, Segment):
        message.segment.CopyFrom(from_segment(hit.item))
    else:
        message.fact.CopyFrom(from_fact(hit.item))
    return message


def _ledger(ledger: Ledger) -> retrieval_service_pb2.Ledger:
    message = retrieval_service_pb2.Ledger(
        leg_terms=[_leg_term(term, ledger) for term in ledger.leg_terms],
        fused_score=ledger.fused_score,
        rank_constant=ledger.rank_constant,
        method=_METHODS[ledger.method],
        reserved_by=ledger.reserved_by,
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
    if ledger.rerank is not None:
        message.rerank.logit = ledger.rerank.logit
        message.rerank.weight = ledger.rerank.weight
        message.rerank.scale = ledger.rerank.scale
    if ledger.diversity is not None:
        setattr(message.diversity, "lambda", ledger.diversity.trade_off)
        message.diversity.relevance = ledger.diversity.relevance
        message.diversity.max_similarity = ledger.diversity.max_similarity
        message.diversity.value = ledger.diversity.value
        if ledger.diversity.closest is not None:
            message.diversity.closest_id = ledger.diversity.closest.id
    return message


def _leg_term(term: LegTerm, ledger: Ledger) -> retrieval_service_pb2.LegTerm:
    return retrieval_service_pb2.LegTerm(
        leg=term.leg,
        rank=term.rank,
        weight=term.weight,
        leg_score=term.leg_score,
        term=worth(term, ledger.method, ledger.rank_constant),
        least=term.least,
        most=term.most,
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
