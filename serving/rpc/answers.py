"""Converts domain values into the responses of RetrievalService."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from google.protobuf.json_format import ParseDict

from serving.config.profiles import ProfileBook
from serving.domain.briefing import BriefingLimits, briefing
from serving.domain.items.passage import part_named
from serving.domain.items.records import Segment, time_of
from serving.domain.ranking.ledger import CurrencyReason, FusionMethod, Ledger, worth
from serving.domain.ranking.reachability import notes
from serving.domain.ranking.signals import SIGNALS
from serving.pipeline.retrieval.explain_absence import Absence
from serving.pipeline.retrieval.leg_runner import LegReport, LegState
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.rerank_stage import RerankReport
from serving.pipeline.retrieval.steps import Retrieval
from serving.pipeline.retrieval.warm import Warmed
from serving.rpc.items import duration, from_fact, from_reference, from_segment
from serving.rpc.questions import RetrieveCall, StreamedCall
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

_LEG_STATES = {state: getattr(retrieval_pb, f"LEG_STATE_{state.name}") for state in LegState}
_STAGES = {stage: getattr(retrieval_pb, f"STAGE_{stage.name}") for stage in Stage}
_METHODS = {each: getattr(retrieval_pb, f"FUSION_METHOD_{each.name}") for each in FusionMethod}
_REASONS = {each: getattr(retrieval_pb, f"CURRENCY_REASON_{each.name}") for each in CurrencyReason}
_LOSSES = {loss: getattr(retrieval_pb, f"LOSS_{loss.name}") for loss in Loss}


def from_retrieval(call: RetrieveCall, retrieval: Retrieval) -> retrieval_pb.RetrieveResponse:
    """Writes the result of a retrieval."""
    timings = retrieval.timings
    return retrieval_pb.RetrieveResponse(
        hits=[
            _hit(rank, hit, explain=call.explain)
            for rank, hit in enumerate(retrieval.hits, start=1)
        ],
        leg_reports=[_report(report) for report in retrieval.reports],
        statistics=retrieval_pb.Statistics(
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
        briefing=_briefing(call, retrieval, call.briefing) if call.briefing else "",
        coercions=[
            retrieval_pb.Coercion(field=field, given=given, used=used)
            for field, given, used in (
                *call.coercions,
                *(("query", name.given, name.used) for name in retrieval.name_corrections),
                *(("seed_ids", seed, "") for seed in retrieval.unknown_seeds),
            )
        ],
        profile=retrieval.profile,
        rerank=_rerank_report(retrieval.rerank) if retrieval.rerank is not None else None,
    )


def _briefing(call: RetrieveCall, retrieval: Retrieval, limits: BriefingLimits) -> str:
    names = (name.used for name in retrieval.name_corrections)
    text = " ".join([call.query.text, *names])
    query = replace(call.query, text=text, time_zone=retrieval.time_zone)
    outdated = {hit.item.item for hit in retrieval.hits if hit.outdated_by is not None}
    items = [hit.item for hit in retrieval.hits]
    parts = {
        hit.item.item: part
        for hit in retrieval.hits
        for term in hit.ledger.leg_terms
        if (part := part_named(term.path)) is not None
    }
    return briefing(items, query, limits, call.profile.block, outdated, parts)


def from_profiles(
    profiles: ProfileBook, names: Sequence[str], next_page_token: str
) -> retrieval_pb.ListProfilesResponse:
    """Writes a page of the profiles."""
    response = retrieval_pb.ListProfilesResponse(next_page_token=next_page_token)
    for name in names:
        profile = profiles[name]
        message = response.profiles.add(name=name, description=profile.description)
        ParseDict(profiles.definition(name), message.definition)
        for leg, text in notes(profile):
            message.notes.add(leg=leg, text=text)
    return response


def from_streamed(call: StreamedCall, retrieval: Retrieval) -> retrieval_pb.RetrieveStreamResponse:
    """Writes an answer of a stream."""
    return retrieval_pb.RetrieveStreamResponse(
        retrieved=from_retrieval(call.retrieve, retrieval),
        request_number=call.number,
        final=call.final,
    )


def from_warmed(call: RetrieveCall, warmed: Sequence[Warmed]) -> retrieval_pb.WarmResponse:
    """Writes what was prepared."""
    return retrieval_pb.WarmResponse(
        parts=[
            retrieval_pb.WarmPart(
                part=each.part, warm=each.warm, reason=each.reason, elapsed=duration(each.elapsed_s)
            )
            for each in warmed
        ],
        profile=call.profile.name,
    )


def from_comparison(
    retrieved: tuple[RetrieveCall, Retrieval], against: tuple[RetrieveCall, Retrieval]
) -> retrieval_pb.CompareResponse:
    """Writes the results of one query under two profiles."""
    ranks, against_ranks = (
        {hit.item.item: rank for rank, hit in enumerate(retrieval.hits, start=1)}
        for _, retrieval in (retrieved, against)
    )
    items = dict.fromkeys([*ranks, *against_ranks])
    shared = ranks.keys() & against_ranks.keys()
    return retrieval_pb.CompareResponse(
        retrieved=from_retrieval(*retrieved),
        against=from_retrieval(*against),
        overlap=len(shared) / len(items) if items else 1.0,
        rank_changes=[
            retrieval_pb.RankChange(
                item=from_reference(item),
                rank=ranks.get(item),
                against_rank=against_ranks.get(item),
            )
            for item in items
        ],
    )


def from_absence(absence: Absence) -> retrieval_pb.ExplainAbsenceResponse:
    """Writes why an item is missing."""
    return retrieval_pb.ExplainAbsenceResponse(
        loss=_LOSSES[absence.loss],
        reason=absence.reason,
        by=from_reference(absence.by) if absence.by is not None else None,
        rank=absence.rank,
        hit=_hit(absence.rank or 0, absence.hit, explain=True) if absence.hit is not None else None,
        legs=[
            retrieval_pb.LegAbsence(
                leg=leg.leg,
                state=_LEG_STATES[leg.state],
                rank=leg.rank,
                score=leg.score,
                depth=leg.depth,
                reason=leg.reason,
            )
            for leg in absence.legs
        ],
    )


def _rerank_report(report: RerankReport) -> retrieval_pb.RerankReport:
    return retrieval_pb.RerankReport(
        stage=_STAGES[report.stage],
        reason=report.reason,
        hit_count=report.hits,
        elapsed=duration(report.elapsed_s),
    )


def _hit(rank: int, hit: Hit, *, explain: bool) -> retrieval_pb.Hit:
    message = retrieval_pb.Hit(
        rank=rank,
        score=hit.score,
        legs=[term.leg for term in hit.ledger.leg_terms if term.leg not in SIGNALS],
        folded=[from_reference(each.item) for each in hit.folded],
        folded_times=[time_of(each) for each in hit.folded],
        ledger=_ledger(hit.ledger) if explain else None,
        stage=_STAGES[hit.stage] if hit.stage else None,
        outdated_by=from_reference(hit.outdated_by) if hit.outdated_by else None,
    )
    if isinstance(hit.item, Segment):
        message.segment.CopyFrom(from_segment(hit.item))
    else:
        message.fact.CopyFrom(from_fact(hit.item))
    return message


def _ledger(ledger: Ledger) -> retrieval_pb.Ledger:
    message = retrieval_pb.Ledger(
        leg_terms=[
            retrieval_pb.LegTerm(
                leg=term.leg,
                rank=term.rank,
                weight=term.weight,
                leg_score=term.leg_score,
                term=worth(term, ledger.method, ledger.rank_constant),
                min_score=term.least,
                max_score=term.most,
                path=term.path,
                fact_ids=term.facts,
            )
            for term in ledger.leg_terms
        ],
        fused_score=ledger.fused_score,
        rank_constant=ledger.rank_constant,
        method=_METHODS[ledger.method],
        reserved_by=ledger.reserved_by,
    )
    for adjacent in ledger.adjacent:
        by = from_reference(adjacent.by)
        message.adjacent.add(share=adjacent.share, score=adjacent.score, by=by)
    if ledger.importance is not None:
        message.importance.MergeFrom(retrieval_pb.ImportanceTerm(**asdict(ledger.importance)))
    if (decay := ledger.decay) is not None:
        message.decay.age.CopyFrom(duration(decay.age_s))
        message.decay.half_life.CopyFrom(duration(decay.half_life_s))
        message.decay.floor = decay.floor
        message.decay.multiplier = decay.multiplier
    if ledger.rerank is not None:
        message.rerank.MergeFrom(retrieval_pb.RerankTerm(**asdict(ledger.rerank)))
    for term in ledger.currency:
        other = from_reference(term.by) if term.by is not None else None
        message.currency.add(factor=term.factor, reason=_REASONS[term.reason], by=other)
    if (diversity := ledger.diversity) is not None:
        message.diversity.trade_off = diversity.trade_off
        message.diversity.relevance = diversity.relevance
        message.diversity.max_similarity = diversity.max_similarity
        message.diversity.value = diversity.value
        if diversity.closest is not None:
            message.diversity.closest.CopyFrom(from_reference(diversity.closest))
    return message


def _report(report: LegReport) -> retrieval_pb.LegReport:
    return retrieval_pb.LegReport(
        leg=report.leg,
        state=_LEG_STATES[report.state],
        reason=report.reason,
        candidate_count=report.candidates,
        below_floor_count=report.below_floor,
        elapsed=duration(report.elapsed_s),
        dead_letter_count=report.dead_letter_count,
        pending_count=report.pending,
    )
