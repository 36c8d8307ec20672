"""Converts response messages into values, for both clients."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from trivium import admin, values
from trivium.errors import TriviumError, error_of
from trivium.tuning import Absence, Comparison, LegAbsence, Loss, Profile, RankChange
from trivium.v1 import (
    admin_service_pb2,
    catalog_service_pb2,
    fact_pb2,
    filter_pb2,
    ingest_service_pb2,
    item_pb2,
    retrieval_service_pb2,
    segment_pb2,
)

_LEG_STATES = {
    retrieval_service_pb2.LEG_STATE_OK: values.LegState.OK,
    retrieval_service_pb2.LEG_STATE_TIMED_OUT: values.LegState.TIMED_OUT,
    retrieval_service_pb2.LEG_STATE_FAILED: values.LegState.FAILED,
    retrieval_service_pb2.LEG_STATE_SKIPPED: values.LegState.SKIPPED,
    retrieval_service_pb2.LEG_STATE_STALE: values.LegState.STALE,
    retrieval_service_pb2.LEG_STATE_PARTIAL: values.LegState.PARTIAL,
}

_METHODS = {
    retrieval_service_pb2.FUSION_METHOD_RECIPROCAL_RANK: values.FusionMethod.RECIPROCAL_RANK,
    retrieval_service_pb2.FUSION_METHOD_CONVEX: values.FusionMethod.CONVEX,
    retrieval_service_pb2.FUSION_METHOD_SCORE: values.FusionMethod.SCORE,
}

_STAGES = {
    retrieval_service_pb2.STAGE_UNSPECIFIED: values.Stage.NONE,
    retrieval_service_pb2.STAGE_RERANKED: values.Stage.RERANKED,
    retrieval_service_pb2.STAGE_COARSE: values.Stage.COARSE,
    retrieval_service_pb2.STAGE_COARSE_FALLBACK: values.Stage.COARSE_FALLBACK,
}

_CURRENCY_REASONS = {
    getattr(retrieval_service_pb2, f"CURRENCY_REASON_{reason.name}"): reason
    for reason in values.CurrencyReason
    if reason is not values.CurrencyReason.UNKNOWN
}

_LOSSES = {
    getattr(retrieval_service_pb2, f"LOSS_{loss.name}"): loss
    for loss in Loss
    if loss is not Loss.UNKNOWN
}

_ROLES = {
    getattr(admin_service_pb2, f"ROLE_{role.name}"): role
    for role in admin.Role
    if role is not admin.Role.UNKNOWN
}

_CHANGE_KINDS = {
    catalog_service_pb2.CHANGE_KIND_STORED: values.ChangeKind.STORED,
    catalog_service_pb2.CHANGE_KIND_ERASED: values.ChangeKind.ERASED,
}

_ITEM_STATES = {
    ingest_service_pb2.ITEM_STATE_CREATED: values.ItemState.CREATED,
    ingest_service_pb2.ITEM_STATE_UPDATED: values.ItemState.UPDATED,
    ingest_service_pb2.ITEM_STATE_UNCHANGED: values.ItemState.UNCHANGED,
    ingest_service_pb2.ITEM_STATE_REJECTED: values.ItemState.REJECTED,
}

_LOOKUP_KEYS = {
    ingest_service_pb2.LOOKUP_KEY_ID: values.LookupKey.ID,
    ingest_service_pb2.LOOKUP_KEY_TEXT: values.LookupKey.TEXT,
    ingest_service_pb2.LOOKUP_KEY_VECTOR: values.LookupKey.VECTOR,
}


def to_batch(
    response: retrieval_service_pb2.RetrieveBatchResponse,
) -> tuple[values.Retrieval | TriviumError, ...]:
    """Reads the result of each query of a batch."""
    return tuple(
        error_of(each.error.code, each.error.message)
        if each.WhichOneof("result") == "error"
        else to_retrieval(each.response)
        for each in response.results
    )


def to_retrieval(response: retrieval_service_pb2.RetrieveResponse) -> values.Retrieval:
    """Reads the result of a query."""
    return values.Retrieval(
        hits=tuple(_hit(hit) for hit in response.hits),
        leg_reports=tuple(_leg_report(report) for report in response.leg_reports),
        statistics=_statistics(response.statistics),
        briefing=response.briefing,
        coercions=tuple(
            values.Coercion(each.field, each.given, each.used) for each in response.coercions
        ),
        profile=response.profile,
        rerank=_rerank_report(response.rerank) if response.HasField("rerank") else None,
    )


def to_streamed(
    response: retrieval_service_pb2.RetrieveStreamResponse,
) -> values.StreamedRetrieval:
    """Reads an answer of a stream."""
    return values.StreamedRetrieval(
        retrieval=to_retrieval(response.retrieved),
        transcript_number=response.request_number,
        final=response.final,
    )


def to_description(
    response: retrieval_service_pb2.DescribeEntityResponse,
) -> values.Description:
    """Reads what holds about somebody."""
    return values.Description(
        facts=tuple(map(to_fact, response.facts)),
        statements=tuple(map(to_segment, response.statements)),
        briefing=response.briefing,
        elapsed=response.elapsed.ToTimedelta(),
    )


def to_changes(response: catalog_service_pb2.WatchChangesResponse) -> values.Changes:
    """Reads changes."""
    return values.Changes(
        changes=tuple(
            values.ItemChange(
                item=_item_ref(each.item),
                change=_CHANGE_KINDS.get(each.change, values.ChangeKind.UNKNOWN),
                token=each.token,
            )
            for each in response.changes
        ),
        token=response.token,
    )


def to_warm_parts(response: retrieval_service_pb2.WarmResponse) -> tuple[values.WarmPart, ...]:
    """Reads what was prepared."""
    return tuple(
        values.WarmPart(
            part=each.part,
            warm=each.warm,
            reason=each.reason,
            elapsed=each.elapsed.ToTimedelta(),
        )
        for each in response.parts
    )


def to_profile(message: retrieval_service_pb2.Profile) -> Profile:
    """Reads a profile."""
    return Profile(
        name=message.name,
        description=message.description,
        definition=_with_whole_numbers(MessageToDict(message.definition)),
        notes={note.leg: note.text for note in message.notes},
    )


def _with_whole_numbers(value: Any) -> Any:
    """Restores the integers in the data of a Struct, which has only floats."""
    if isinstance(value, dict):
        return {name: _with_whole_numbers(of) for name, of in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def to_comparison(response: retrieval_service_pb2.CompareResponse) -> Comparison:
    """Reads a comparison of two profiles."""
    return Comparison(
        retrieved=to_retrieval(response.retrieved),
        against=to_retrieval(response.against),
        overlap=response.overlap,
        rank_changes=tuple(
            RankChange(
                item=_item_ref(each.item),
                rank=each.rank if each.HasField("rank") else None,
                against_rank=each.against_rank if each.HasField("against_rank") else None,
            )
            for each in response.rank_changes
        ),
    )


def to_absence(response: retrieval_service_pb2.ExplainAbsenceResponse) -> Absence:
    """Reads why an item is not a hit."""
    return Absence(
        loss=_LOSSES.get(response.loss, Loss.UNKNOWN),
        reason=response.reason,
        by=_item_ref_if_set(response, "by"),
        rank=response.rank if response.HasField("rank") else None,
        hit=_hit(response.hit) if response.HasField("hit") else None,
        legs=tuple(
            LegAbsence(
                leg=each.leg,
                state=_LEG_STATES.get(each.state, values.LegState.UNKNOWN),
                rank=each.rank if each.HasField("rank") else None,
                score=each.score if each.HasField("score") else None,
                depth=each.depth,
                reason=each.reason,
            )
            for each in response.legs
        ),
    )


def to_segment(message: segment_pb2.Segment) -> values.Segment:
    """Reads a segment."""
    return values.Segment(
        id=message.id,
        text=message.text,
        title=message.title,
        kind=message.kind,
        speaker=message.speaker,
        session=message.session,
        event_time=_time(message, "event_time"),
        importance=message.importance if message.HasField("importance") else None,
        sensitive=message.sensitive,
        labels=dict(message.labels),
        entities=tuple(message.entities),
        entity=message.entity,
        keywords=tuple(message.keywords),
        created_at=_time(message, "created_at"),
        updated_at=_time(message, "updated_at"),
        mentions=tuple(
            values.TimeRange(_time(each, "start"), _time(each, "end")) for each in message.mentions
        ),
        expires_at=_time(message, "expires_at"),
        version=message.version,
    )


def to_fact(message: fact_pb2.Fact) -> values.Fact:
    """Reads a fact."""
    return values.Fact(
        id=message.id,
        subject=message.subject,
        relation=message.relation,
        object=message.object,
        sentence=message.sentence,
        valid_from=_time(message, "valid_from"),
        valid_to=_time(message, "valid_to"),
        recorded_at=_time(message, "recorded_at"),
        retracted_at=_time(message, "retracted_at"),
        evidence=tuple(message.evidence),
        weight=message.weight if message.HasField("weight") else None,
        sensitive=message.sensitive,
        closes=tuple(message.closes),
        single_valued=message.single_valued,
        closings=tuple(map(_to_closing, message.closings)),
        created_at=_time(message, "created_at"),
        updated_at=_time(message, "updated_at"),
        expires_at=_time(message, "expires_at"),
        version=message.version,
    )


def _to_closing(message: fact_pb2.FactClosing) -> values.FactClosing:
    return values.FactClosing(
        fact_id=message.fact_id,
        at=message.at.ToDatetime(tzinfo=UTC),
        recorded_at=message.recorded_at.ToDatetime(tzinfo=UTC),
        retracted_at=_time(message, "retracted_at"),
    )


def to_filter(message: filter_pb2.Filter) -> values.Filter:
    """Reads a filter, as a file or an argument may have it."""
    none_of = message.none_of
    return values.Filter(
        kinds=tuple(message.kinds),
        labels={label.key: _label_condition(label) for label in message.labels},
        speakers=tuple(message.speakers),
        sessions=tuple(message.sessions),
        entities=tuple(message.entities),
        min_importance=message.min_importance,
        event_time=_time_range(message, "event_time"),
        created_at=_time_range(message, "created_at"),
        updated_at=_time_range(message, "updated_at"),
        none_of=values.Exclusion(
            kinds=tuple(none_of.kinds),
            speakers=tuple(none_of.speakers),
            sessions=tuple(none_of.sessions),
            ids=tuple(none_of.ids),
            fact_ids=tuple(none_of.fact_ids),
            filters=tuple(map(to_filter, none_of.filters)),
        ),
        all_of=tuple(map(to_filter, message.all_of)),
        any_of=tuple(map(to_filter, message.any_of)),
    )


def _label_condition(label: filter_pb2.LabelFilter) -> values.LabelCondition:
    if label.HasField("number"):
        number = label.number
        return values.NumberRange(
            number.min if number.HasField("min") else None,
            number.max if number.HasField("max") else None,
        )
    if (date := _time_range(label, "date")) is not None:
        return date
    return label.exists if label.HasField("exists") else tuple(label.values)


def _time_range(message: Message, field: str) -> values.TimeRange | None:
    if not message.HasField(field):
        return None
    given = getattr(message, field)
    return values.TimeRange(_time(given, "start"), _time(given, "end"))


def to_ingest_result(response: ingest_service_pb2.IngestResponse) -> values.IngestResult:
    """Reads the outcomes of the items of one call."""
    return values.IngestResult(
        outcomes=_outcomes(response.outcomes), consistency_token=response.consistency_token
    )


def to_stream_result(response: ingest_service_pb2.IngestStreamResponse) -> values.StreamResult:
    """Reads the outcome of a stream."""
    return values.StreamResult(
        created_count=response.created_count,
        updated_count=response.updated_count,
        unchanged_count=response.unchanged_count,
        rejected_count=response.rejected_count,
        rejected=_outcomes(response.rejected),
        consistency_token=response.consistency_token,
    )


def to_patch_result(response: ingest_service_pb2.PatchResponse) -> values.PatchResult:
    """Reads the outcome of a change."""
    kind = response.WhichOneof("item")
    item: values.Item | None = None
    if kind is not None:
        item = to_segment(response.segment) if kind == "segment" else to_fact(response.fact)
    return values.PatchResult(item=item, consistency_token=response.consistency_token)


def to_forget_result(response: ingest_service_pb2.ForgetResponse) -> values.ForgetResult:
    """Reads the result of an erasure."""
    return values.ForgetResult(
        segment_count=response.segment_count,
        fact_count=response.fact_count,
        receipts=tuple(
            values.StoreReceipt(
                store=each.store,
                verified=each.verified,
                remaining_count=each.remaining_count,
                reason=each.reason,
                removed_count=each.removed_count,
                lookups=tuple(
                    values.Lookup(
                        _LOOKUP_KEYS.get(lookup.key, values.LookupKey.UNKNOWN),
                        lookup.asked_count,
                        lookup.found_count,
                    )
                    for lookup in each.lookups
                ),
            )
            for each in response.receipts
        ),
        consistency_token=response.consistency_token,
        segments_by_speaker={each.speaker: each.segment_count for each in response.speakers},
    )


def to_facts_found(response: catalog_service_pb2.GetFactsResponse) -> values.FactsFound:
    """Reads facts and the ids that do not exist."""
    return values.FactsFound(
        tuple(to_fact(each) for each in response.facts), tuple(response.missing_ids)
    )


def to_segments_found(response: catalog_service_pb2.GetSegmentsResponse) -> values.SegmentsFound:
    """Reads segments and the ids that do not exist."""
    return values.SegmentsFound(
        tuple(to_segment(each) for each in response.segments), tuple(response.missing_ids)
    )


def _index_tier(message: catalog_service_pb2.IndexTier) -> values.IndexTier:
    return values.IndexTier(
        kind=message.kind,
        vector_count=message.vector_count,
        dead_count=message.dead_count,
        approximate=message.approximate,
        rebuilding=message.rebuilding,
        failure=message.failure,
        memory_bytes=message.memory_bytes,
    )


def to_stats(response: catalog_service_pb2.GetStatsResponse) -> values.Stats:
    """Reads the state of the service."""
    return values.Stats(
        tenant=_tenant_stats(response.tenant) if response.HasField("tenant") else None,
        projections=tuple(_projection_stats(each) for each in response.projections),
        index=values.IndexStats(
            ready=response.index.ready,
            vector_count=response.index.vector_count,
            epoch=response.index.epoch,
            reason=response.index.reason,
            tiers=tuple(_index_tier(each) for each in response.index.tiers),
        ),
        service=_service_stats(response.service),
        dead_letters=tuple(
            values.DeadLetter(
                projection=each.projection,
                item=_item_ref(each.item),
                reason=each.reason,
                dead_lettered_at=_time(each, "dead_lettered_at"),
            )
            for each in response.dead_letters
        ),
        legs=tuple(map(_leg_stats, response.legs)),
    )


def _leg_stats(leg: catalog_service_pb2.LegStats) -> values.LegStats:
    return values.LegStats(
        leg=leg.leg,
        answer_count=leg.answer_count,
        timed_out_count=leg.timed_out_count,
        failed_count=leg.failed_count,
        skipped_count=leg.skipped_count,
        p50=leg.p50.ToTimedelta(),
        p95=leg.p95.ToTimedelta(),
    )


def _hit(hit: retrieval_service_pb2.Hit) -> values.Hit:
    is_fact = hit.WhichOneof("item") == "fact"
    return values.Hit(
        item=to_fact(hit.fact) if is_fact else to_segment(hit.segment),
        rank=hit.rank,
        score=hit.score,
        legs=tuple(hit.legs),
        folded=tuple(map(_item_ref, hit.folded)),
        folded_times=tuple(each.ToDatetime(tzinfo=UTC) for each in hit.folded_times),
        ledger=_ledger(hit.ledger) if hit.HasField("ledger") else None,
        stage=_STAGES.get(hit.stage, values.Stage.UNKNOWN),
        outdated_by=_item_ref(hit.outdated_by) if hit.HasField("outdated_by") else None,
        tenant=hit.tenant,
    )


def _ledger(ledger: retrieval_service_pb2.Ledger) -> values.Ledger:
    return values.Ledger(
        leg_terms=tuple(_leg_term(term) for term in ledger.leg_terms),
        fused_score=ledger.fused_score,
        rank_constant=ledger.rank_constant,
        method=_METHODS.get(ledger.method, values.FusionMethod.UNKNOWN),
        reserved_by=ledger.reserved_by,
        tenant_weight=ledger.tenant_weight if ledger.HasField("tenant_weight") else None,
        rerank=_rerank_term(ledger.rerank) if ledger.HasField("rerank") else None,
        importance=_importance(ledger.importance) if ledger.HasField("importance") else None,
        decay=_decay(ledger.decay) if ledger.HasField("decay") else None,
        adjacent=tuple(map(_adjacent, ledger.adjacent)),
        currency=tuple(map(_currency, ledger.currency)),
        diversity=_diversity(ledger.diversity) if ledger.HasField("diversity") else None,
    )


def _leg_term(term: retrieval_service_pb2.LegTerm) -> values.LegTerm:
    return values.LegTerm(
        leg=term.leg,
        rank=term.rank,
        weight=term.weight,
        leg_score=term.leg_score,
        term=term.term,
        path=term.path,
        fact_ids=tuple(term.fact_ids),
        min_score=term.min_score,
        max_score=term.max_score,
    )


def _rerank_term(term: retrieval_service_pb2.RerankTerm) -> values.RerankTerm:
    return values.RerankTerm(logit=term.logit, weight=term.weight, scale=term.scale)


def _rerank_report(report: retrieval_service_pb2.RerankReport) -> values.RerankReport:
    return values.RerankReport(
        stage=_STAGES.get(report.stage, values.Stage.UNKNOWN),
        reason=report.reason,
        hit_count=report.hit_count,
        elapsed=report.elapsed.ToTimedelta(),
    )


def _importance(term: retrieval_service_pb2.ImportanceTerm) -> values.ImportanceTerm:
    return values.ImportanceTerm(
        importance=term.importance, multiplier=term.multiplier, boost=term.boost
    )


def _decay(term: retrieval_service_pb2.DecayTerm) -> values.DecayTerm:
    return values.DecayTerm(
        age=term.age.ToTimedelta(),
        half_life=term.half_life.ToTimedelta(),
        floor=term.floor,
        multiplier=term.multiplier,
    )


def _adjacent(term: retrieval_service_pb2.AdjacentTerm) -> values.AdjacentTerm:
    return values.AdjacentTerm(share=term.share, score=term.score, by=_item_ref(term.by))


def _currency(term: retrieval_service_pb2.CurrencyTerm) -> values.CurrencyTerm:
    return values.CurrencyTerm(
        factor=term.factor,
        reason=_CURRENCY_REASONS.get(term.reason, values.CurrencyReason.UNKNOWN),
        by=_item_ref_if_set(term, "by"),
    )


def _diversity(term: retrieval_service_pb2.DiversityTerm) -> values.DiversityTerm:
    return values.DiversityTerm(
        trade_off=term.trade_off,
        relevance=term.relevance,
        max_similarity=term.max_similarity,
        value=term.value,
        closest=_item_ref_if_set(term, "closest"),
    )


def _leg_report(report: retrieval_service_pb2.LegReport) -> values.LegReport:
    return values.LegReport(
        leg=report.leg,
        state=_LEG_STATES.get(report.state, values.LegState.UNKNOWN),
        reason=report.reason,
        candidate_count=report.candidate_count,
        below_floor_count=report.below_floor_count,
        elapsed=report.elapsed.ToTimedelta(),
        dead_letter_count=report.dead_letter_count,
        pending_count=report.pending_count,
        in_memory=report.in_memory,
        tenant=report.tenant,
    )


def _statistics(statistics: retrieval_service_pb2.Statistics) -> values.Statistics:
    return values.Statistics(
        total=statistics.total.ToTimedelta(),
        embedding=statistics.embedding.ToTimedelta(),
        loading=statistics.loading.ToTimedelta(),
        ranking=statistics.ranking.ToTimedelta(),
        reranking=statistics.reranking.ToTimedelta(),
        candidate_count=statistics.candidate_count,
        folded_count=statistics.folded_count,
        vanished_count=statistics.vanished_count,
        index_epoch=statistics.index_epoch,
    )


def _outcomes(outcomes: Iterable[ingest_service_pb2.ItemOutcome]) -> tuple[values.ItemOutcome, ...]:
    return tuple(
        values.ItemOutcome(
            index=each.index,
            item=_item_ref_if_set(each, "item"),
            state=_ITEM_STATES.get(each.state, values.ItemState.UNKNOWN),
            violations=tuple(
                (violation.field, violation.description) for violation in each.violations
            ),
        )
        for each in outcomes
    )


def to_tenant(message: admin_service_pb2.Tenant) -> admin.Tenant:
    """Reads a tenant."""
    return admin.Tenant(
        name=message.name,
        segment_count=message.segment_count,
        fact_count=message.fact_count,
        text_bytes=message.text_bytes,
        newest_event_time=_time(message, "newest_event_time"),
        updated_at=_time(message, "updated_at"),
        text_search_config=message.text_search_config,
        time_zone=message.time_zone,
    )


def to_key(message: admin_service_pb2.ApiKey) -> admin.ApiKey:
    """Reads an API key."""
    return admin.ApiKey(
        id=message.id,
        roles=frozenset(_ROLES.get(role, admin.Role.UNKNOWN) for role in message.roles),
        tenant=message.tenant,
        note=message.note,
        created_at=_time(message, "created_at"),
        expires_at=_time(message, "expires_at"),
        revoked_at=_time(message, "revoked_at"),
    )


def to_audit_entry(message: admin_service_pb2.AuditEntry) -> admin.AuditEntry:
    """Reads an entry of the audit log."""
    return admin.AuditEntry(
        at=_time(message, "at"),
        caller=message.caller,
        rpc=message.rpc,
        tenant=message.tenant,
        created_count=message.created_count,
        updated_count=message.updated_count,
        erased_count=message.erased_count,
        key_id=message.key_id,
    )


def _tenant_stats(stats: catalog_service_pb2.TenantStats) -> values.TenantStats:
    return values.TenantStats(
        segment_count=stats.segment_count,
        sensitive_segment_count=stats.sensitive_segment_count,
        fact_count=stats.fact_count,
        entity_count=stats.entity_count if stats.HasField("entity_count") else None,
        embedded_count=stats.embedded_count,
        embeddable_count=stats.embeddable_count,
        text_search_config=stats.text_search_config,
        time_zone=stats.time_zone,
        newest_event_time=_time(stats, "newest_event_time"),
    )


def _projection_stats(stats: catalog_service_pb2.ProjectionStats) -> values.ProjectionStats:
    return values.ProjectionStats(
        projection=stats.projection,
        pending_count=stats.pending_count,
        lag=stats.lag.ToTimedelta(),
        dead_letter_count=stats.dead_letter_count,
    )


def _service_stats(stats: catalog_service_pb2.ServiceStats) -> values.ServiceStats:
    return values.ServiceStats(
        version=stats.version,
        placement=stats.placement,
        ingress=stats.ingress,
        model_fingerprint=stats.model_fingerprint,
        dimension=stats.dimension,
        started_at=_time(stats, "started_at"),
        degraded=tuple(stats.degraded),
    )


def _item_ref(message: item_pb2.ItemRef) -> values.ItemRef:
    if message.WhichOneof("item") == "fact_id":
        return values.ItemRef(values.ItemKind.FACT, message.fact_id)
    return values.ItemRef(values.ItemKind.SEGMENT, message.segment_id)


def _item_ref_if_set(message: Message, field: str) -> values.ItemRef | None:
    return _item_ref(getattr(message, field)) if message.HasField(field) else None


def _time(message: Message, field: str) -> datetime | None:
    if not message.HasField(field):
        return None
    timestamp: Timestamp = getattr(message, field)
    return timestamp.ToDatetime(tzinfo=UTC)
