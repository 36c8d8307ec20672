"""Retrieve: reads a query under a profile, and writes its hits with ledgers and reports.

Invalid fields are collected, and then raise one `InvalidRequestError`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import NamedTuple

from google.protobuf.json_format import MessageToDict

from serving.config.profiles import DEFAULT_PROFILE, FieldError, ProfileBook
from serving.domain.briefing import BriefingLimits, briefing
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import InvalidRequestError, Violation
from serving.domain.items.passage import part_named
from serving.domain.items.records import Segment, TenantName, time_of
from serving.domain.questions.query import Query, Scope, TenantWeight
from serving.domain.ranking.ledger import CurrencyReason, FusionMethod, Ledger, worth
from serving.domain.ranking.profile import MAX_DEPTH, MAX_LIMIT, MAX_WEIGHT, LegOverride, Profile
from serving.domain.ranking.signals import SIGNALS
from serving.pipeline.retrieval.leg_runner import LegReport, LegState
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.rerank_stage import RerankReport
from serving.pipeline.retrieval.steps import Retrieval
from serving.rpc.check import MAX_ID_BYTES, Checker
from serving.rpc.filters import to_filter
from serving.rpc.items import duration, from_fact, from_reference, from_segment
from trivium.v1 import retrieval_service_pb2 as pb

MAX_QUERY_BYTES = 8192
MAX_SENT_QUERY_BYTES = 1 << 20
"""Of which the first `MAX_QUERY_BYTES` are searched."""
DEFAULT_TIME_BUDGET_S = 2.0
MAX_TIME_BUDGET_S = 30.0
MAX_SEEDS = 32
MAX_DIMENSION = 4000
"""The most that PostgreSQL stores of an embedding model."""
MAX_OVERRIDES_BYTES = 64 * 1024
MAX_TOKEN_BYTES = 2048
MAX_LEG_OVERRIDES = 64
MAX_TENANTS = 8

LEG_STATES = {state: getattr(pb, f"LEG_STATE_{state.name}") for state in LegState}
_STAGES = {stage: getattr(pb, f"STAGE_{stage.name}") for stage in Stage}
_METHODS = {each: getattr(pb, f"FUSION_METHOD_{each.name}") for each in FusionMethod}
_REASONS = {each: getattr(pb, f"CURRENCY_REASON_{each.name}") for each in CurrencyReason}


class Coercion(NamedTuple):
    """A value of the request that was changed."""

    field: str
    given: str
    used: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveCall:
    """A checked RetrieveRequest."""

    query: Query
    profile: Profile
    time_budget_s: float
    explain: bool
    briefing: BriefingLimits | None
    coercions: tuple[Coercion, ...] = ()


def to_retrieve_call(
    request: pb.RetrieveRequest, profiles: ProfileBook, now: datetime
) -> RetrieveCall:
    """Reads a RetrieveRequest."""
    coercions: list[Coercion] = []
    with Checker() as check:
        tenants = _tenants(check, request)
        query = Query(
            scope=Scope(
                tenant=tenants[0].tenant if tenants else check.tenant(request.tenant),
                as_of=check.optional_instant("as_of", request) or now,
                filter=to_filter(check, "filter", request.filter),
                known_at=check.optional_instant("known_at", request),
            ),
            text=_question(check, request.query, coercions),
            vector=to_vector(check, request.vector),
            token=to_token(check, request.consistency_token),
            seeds=check.texts("seed_ids", request.seed_ids, MAX_SEEDS, MAX_ID_BYTES),
            required=frozenset(request.required_legs),
            time_zone=check.time_zone("time_zone", request.time_zone),
            tenants=tenants,
        )
        limit = _limit(check, request.limit, coercions)
        profile = _profile(check, request, profiles, limit)
        _required_legs(check, request, profile)
        # A leg of the profile may search for the same in any case.
        searches = profile is None or any(
            LEGS[leg.name].needs_question for leg in profile.legs if leg.weight
        )
        required = searches and not request.vector
        check.text("query", query.text, MAX_QUERY_BYTES, required=required)
        time_budget_s = to_time_budget(check, request, coercions)
        limits = _briefing_limits(check, request)
    assert profile is not None, "an unknown profile was rejected above; this is a bug"
    return RetrieveCall(
        query=query,
        profile=profile,
        time_budget_s=time_budget_s,
        explain=request.explain,
        briefing=limits,
        coercions=tuple(coercions),
    )


def to_inner_call(
    request: pb.RetrieveRequest, profiles: ProfileBook, now: datetime, **names: str
) -> RetrieveCall:
    """Reads the request in the field `retrieve`, and reports violations by their full path.

    `names` are the paths of fields that do not come from `retrieve`.
    """

    def outer(violation: Violation) -> Violation:
        first, dot, rest = violation.field.partition(".")
        path = f"{names[first]}{dot}{rest}" if first in names else f"retrieve.{violation.field}"
        return violation._replace(field=path)

    try:
        return to_retrieve_call(request, profiles, now)
    except InvalidRequestError as error:
        raise InvalidRequestError([*map(outer, error.violations)]) from None


def _tenants(check: Checker, request: pb.RetrieveRequest) -> tuple[TenantWeight, ...]:
    if (given := len(request.tenants)) > MAX_TENANTS:
        check.reject("tenants", f"must be at most {MAX_TENANTS}, are {given}")
    if request.tenants:
        for name, value in (("tenant", request.tenant), ("seed_ids", request.seed_ids)):
            if value:
                check.reject(name, "must be empty if tenants has some")
    found: dict[str, TenantWeight] = {}
    for place, message in enumerate(request.tenants[:MAX_TENANTS]):
        path = f"tenants[{place}]"
        name = check.text(f"{path}.tenant", message.tenant, MAX_ID_BYTES, required=True)
        if name in found:
            check.reject(f"{path}.tenant", f"must be named once, {name!r} is named again")
        weight = 1.0
        if message.HasField("weight"):
            weight = check.number(f"{path}.weight", message.weight, 0, MAX_WEIGHT)
            if weight == 0:
                check.reject(f"{path}.weight", "must be above 0; leave the tenant out instead")
        found[name] = TenantWeight(TenantName(name), weight)
    return tuple(found.values())


def to_vector(check: Checker, values: Sequence[float]) -> tuple[float, ...] | None:
    """Reads a query vector as one of unit length; None if there is none."""
    if not values:
        return None
    if len(values) > MAX_DIMENSION:
        # Before the numbers are read: ten million of them take seconds.
        check.reject("vector", f"must have at most {MAX_DIMENSION} values, has {len(values)}")
        return None
    length = math.hypot(*values)
    if not math.isfinite(length):
        check.reject("vector", "must be finite")
    elif not length:
        check.reject("vector", "must not be zero")
    else:
        # In float64: in float32 the length of a huge vector is infinite, that of a tiny one 0.
        return tuple(value / length for value in values)
    return None


def to_token(check: Checker, text: str) -> ConsistencyToken | None:
    """Reads a consistency token; None if it is empty."""
    if not text:
        return None
    if (size := len(text.encode())) > MAX_TOKEN_BYTES:
        check.reject("consistency_token", f"must be at most {MAX_TOKEN_BYTES} bytes, has {size}")
        return None
    try:
        return ConsistencyToken.parse(text)
    except ValueError:
        check.reject("consistency_token", "must be a token that a write returned")
        return None


def _profile(
    check: Checker, request: pb.RetrieveRequest, profiles: ProfileBook, limit: int
) -> Profile | None:
    """The profile with the request's overrides; `limit` 0 keeps that of the profile."""
    profile = _overridden_profile(check, request, profiles)
    if profile is None:
        return None
    overrides = _leg_overrides(check, request, [leg.name for leg in profile.legs])
    if check.violations:
        return profile
    field = "leg_overrides"
    try:
        profile = profile.with_overrides(overrides)
        field = "limit"
        return replace(profile, limit=limit) if limit not in (0, profile.limit) else profile
    except ValueError as error:
        check.reject(field, str(error))
        return profile


def _overridden_profile(
    check: Checker, request: pb.RetrieveRequest, profiles: ProfileBook
) -> Profile | None:
    name = request.profile or DEFAULT_PROFILE
    if name not in profiles:
        known = ", ".join(sorted(profiles))
        check.reject("profile", f"must be one of {known}, is {request.profile[:MAX_ID_BYTES]!r}")
        return None
    if not request.profile_overrides.fields:
        return profiles[name]
    if (size := request.profile_overrides.ByteSize()) > MAX_OVERRIDES_BYTES:
        check.reject("profile_overrides", f"must be at most {MAX_OVERRIDES_BYTES} bytes, is {size}")
        return None
    try:
        changes = MessageToDict(request.profile_overrides)
    except ValueError:
        check.reject("profile_overrides", "has a number that is not finite")
        return None
    try:
        return profiles.changed(name, changes)
    except FieldError as error:
        for path, why in error.faults:
            check.reject(f"profile_overrides.{path}".rstrip("."), why)
        return None


def _leg_overrides(
    check: Checker, request: pb.RetrieveRequest, names: Sequence[str]
) -> dict[str, LegOverride]:
    overrides: dict[str, LegOverride] = {}
    if (count := len(request.leg_overrides)) > MAX_LEG_OVERRIDES:
        check.reject("leg_overrides", f"must be at most {MAX_LEG_OVERRIDES}, are {count}")
        return overrides
    for place, message in enumerate(request.leg_overrides):
        path = f"leg_overrides[{place}]"
        if message.leg not in names:
            given = message.leg[:MAX_ID_BYTES]
            check.reject(f"{path}.leg", f"must be one of {', '.join(names)}, is {given!r}")
        elif message.leg in overrides:
            check.reject(f"{path}.leg", f"must be named once, {message.leg!r} is named again")
        else:
            weight = depth = None
            if message.HasField("weight"):
                weight = check.number(f"{path}.weight", message.weight, 0, MAX_WEIGHT)
            if message.HasField("depth"):
                depth = int(check.number(f"{path}.depth", message.depth, 1, MAX_DEPTH))
            overrides[message.leg] = LegOverride(weight=weight, depth=depth)
    return overrides


def _required_legs(check: Checker, request: pb.RetrieveRequest, profile: Profile | None) -> None:
    if profile is None:
        return
    known = [leg.name for leg in profile.legs if leg.weight]
    required = check.texts("required_legs", request.required_legs, len(known), MAX_ID_BYTES)
    for place, name in enumerate(required):
        if name not in known:
            check.reject(f"required_legs[{place}]", f"must be one of {', '.join(known)}")


def _question(check: Checker, given: str, coercions: list[Coercion]) -> str:
    """The text that is searched: the beginning of a long one, as a prompt may have a log in it."""
    encoded = given.encode()
    size = len(encoded)
    if size <= MAX_QUERY_BYTES:
        return given
    if size > MAX_SENT_QUERY_BYTES:
        check.reject("query", f"must be at most {MAX_SENT_QUERY_BYTES} bytes, has {size}")
    coercions.append(Coercion("query", f"{size} bytes", f"{MAX_QUERY_BYTES} bytes"))
    return encoded[:MAX_QUERY_BYTES].decode(errors="ignore")


def _limit(check: Checker, given: int, coercions: list[Coercion]) -> int:
    """The limit of the request; 0 means that of the profile."""
    if given < 0:
        check.reject("limit", f"must not be below 0, is {given}")
        return 0
    if given > MAX_LIMIT:
        coercions.append(Coercion("limit", str(given), str(MAX_LIMIT)))
    return min(given, MAX_LIMIT)


def to_time_budget(
    check: Checker,
    request: pb.RetrieveRequest | pb.DescribeEntityRequest,
    coercions: list[Coercion],
) -> float:
    """Reads `time_budget`, in seconds."""
    if not request.HasField("time_budget"):
        return DEFAULT_TIME_BUDGET_S
    given = check.duration("time_budget", request.time_budget)
    if given > MAX_TIME_BUDGET_S:
        coercions.append(Coercion("time_budget", f"{given:g}s", f"{MAX_TIME_BUDGET_S:g}s"))
    return min(given, MAX_TIME_BUDGET_S)


def _briefing_limits(check: Checker, request: pb.RetrieveRequest) -> BriefingLimits | None:
    if not request.HasField("briefing"):
        return None
    given, usual = request.briefing, BriefingLimits()
    return BriefingLimits(
        to_max_chars(check, "briefing.max_chars", given.max_chars),
        int(check.number("briefing.max_line_chars", given.max_line_chars, 20, 10_000))
        if given.max_line_chars
        else usual.max_line_chars,
        days=not given.without_days,
    )


def to_max_chars(check: Checker, field: str, given: int) -> int:
    """Reads the maximum length of a block; 0 is the default."""
    return int(check.number(field, given or BriefingLimits().max_chars, 200, 100_000))


def from_retrieval(call: RetrieveCall, retrieval: Retrieval) -> pb.RetrieveResponse:
    """Writes the result of a retrieval."""
    timings = retrieval.timings
    return pb.RetrieveResponse(
        hits=[
            from_hit(rank, hit, explain=call.explain)
            for rank, hit in enumerate(retrieval.hits, start=1)
        ],
        leg_reports=[_report(report) for report in retrieval.reports],
        statistics=pb.Statistics(
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
            pb.Coercion(field=field, given=given, used=used)
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
    # With ids that no item of another tenant has; a block shows none.
    items = [
        replace(hit.item, id=f"{hit.tenant}\x1f{hit.item.id}") if hit.tenant else hit.item
        for hit in retrieval.hits
    ]
    shown = list(zip(retrieval.hits, items, strict=True))
    outdated = {item.item for hit, item in shown if hit.outdated_by is not None}
    parts = {
        item.item: part
        for hit, item in shown
        for term in hit.ledger.leg_terms
        if (part := part_named(term.path)) is not None
    }
    return briefing(items, query, limits, call.profile.block, outdated, parts)


def from_hit(rank: int, hit: Hit, *, explain: bool) -> pb.Hit:
    """Writes a hit, with its ledger if `explain`."""
    message = pb.Hit(
        rank=rank,
        score=hit.score,
        legs=[term.leg for term in hit.ledger.leg_terms if term.leg not in SIGNALS],
        folded=[from_reference(each.item) for each in hit.folded],
        folded_times=[time_of(each) for each in hit.folded],
        ledger=_ledger(hit.ledger) if explain else None,
        stage=_STAGES[hit.stage] if hit.stage else None,
        outdated_by=from_reference(hit.outdated_by) if hit.outdated_by else None,
        tenant=hit.tenant,
    )
    if isinstance(hit.item, Segment):
        message.segment.CopyFrom(from_segment(hit.item))
    else:
        message.fact.CopyFrom(from_fact(hit.item))
    return message


def _ledger(ledger: Ledger) -> pb.Ledger:
    message = pb.Ledger(
        leg_terms=[
            pb.LegTerm(
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
        tenant_weight=ledger.tenant_weight,
    )
    for adjacent in ledger.adjacent:
        by = from_reference(adjacent.by)
        message.adjacent.add(share=adjacent.share, score=adjacent.score, by=by)
    if ledger.importance is not None:
        message.importance.MergeFrom(pb.ImportanceTerm(**asdict(ledger.importance)))
    if (decay := ledger.decay) is not None:
        message.decay.age.CopyFrom(duration(decay.age_s))
        message.decay.half_life.CopyFrom(duration(decay.half_life_s))
        message.decay.floor = decay.floor
        message.decay.multiplier = decay.multiplier
    if ledger.rerank is not None:
        message.rerank.MergeFrom(pb.RerankTerm(**asdict(ledger.rerank)))
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


def _report(report: LegReport) -> pb.LegReport:
    return pb.LegReport(
        leg=report.leg,
        state=LEG_STATES[report.state],
        reason=report.reason,
        candidate_count=report.candidates,
        below_floor_count=report.below_floor,
        elapsed=duration(report.elapsed_s),
        dead_letter_count=report.dead_letter_count,
        pending_count=report.pending,
        in_memory=report.in_memory,
        tenant=report.tenant,
    )


def _rerank_report(report: RerankReport) -> pb.RerankReport:
    return pb.RerankReport(
        stage=_STAGES[report.stage],
        reason=report.reason,
        hit_count=report.hits,
        elapsed=duration(report.elapsed_s),
    )
