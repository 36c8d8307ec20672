"""Formats a ledger as lines of arithmetic, in the order of the formula."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from trivium.values import (
    CurrencyTerm,
    DecayTerm,
    DiversityTerm,
    FusionMethod,
    ImportanceTerm,
    Ledger,
    LegTerm,
    RerankTerm,
)

_DAY = timedelta(days=1)


def ledger_lines(ledger: Ledger) -> Iterator[str]:
    """Formats every step from ranks to the score, with all its numbers."""
    for term in ledger.leg_terms:
        yield from _term(term, ledger)
    yield f"sum: {_sum(ledger)} = {_number(ledger.fused_score)}"
    if ledger.adjacent:
        yield _adjacent(ledger)
    if ledger.importance is not None:
        yield _importance(ledger.importance)
    if ledger.decay is not None:
        yield f"age: {_ageing(ledger.decay)} = {_number(ledger.decay.multiplier)}"
    if ledger.importance is not None or ledger.decay is not None:
        yield f"score: {_weighed(ledger)} = {_number(_coarse(ledger))}"
    if ledger.rerank is not None:
        before = replace(ledger, currency=(), tenant_weight=None).recompute()
        yield f"reranked: {_reranked(ledger.rerank, ledger)} = {_number(before)}"
    if ledger.currency:
        yield _currency(replace(ledger, tenant_weight=None))
    if ledger.tenant_weight is not None:
        before = replace(ledger, tenant_weight=None).recompute()
        product = f"{_number(before)} x {_number(ledger.tenant_weight)}"
        yield f"tenant: {product} = {_number(ledger.recompute())}"
    if ledger.diversity is not None:
        yield _diversity(ledger.diversity)
    if ledger.reserved_by:
        yield f"in a place reserved for {ledger.reserved_by}"


def _number(value: float) -> str:
    """Six digits, so that results computed from them are exact to five."""
    return f"{value:.6g}"


def _days(duration: timedelta) -> str:
    return _number(duration / _DAY)


def _term(term: LegTerm, ledger: Ledger) -> Iterator[str]:
    yield f"{term.leg}: {_formula(term, ledger)} = {_number(term.term)}{_aside(term, ledger)}"
    if term.path:
        yield f"  {term.path}"
    if term.fact_ids:
        yield f"  evidence of {', '.join(term.fact_ids)}"


def _formula(term: LegTerm, ledger: Ledger) -> str:
    weight, score = _number(term.weight), _number(term.leg_score)
    match ledger.method:
        case FusionMethod.RECIPROCAL_RANK:
            return f"{weight} / ({_number(ledger.rank_constant)} + {_number(term.rank)})"
        case FusionMethod.CONVEX:
            low, high = _number(term.min_score), _number(term.max_score)
            return f"{weight} x ({score} - {low}) / ({high} - {low})"
        case _:
            return f"{weight} x {score}"


def _aside(term: LegTerm, ledger: Ledger) -> str:
    """The leg's rank or score, whichever the formula does not use."""
    if ledger.method is FusionMethod.RECIPROCAL_RANK:
        return f" (leg score {_number(term.leg_score)})"
    return f" (rank {_number(term.rank)})"


def _sum(ledger: Ledger) -> str:
    return " + ".join(_number(term.term) for term in ledger.leg_terms)


def _adjacent(ledger: Ledger) -> str:
    shares = (f"{_number(each.share)} x {_number(each.score)}" for each in ledger.adjacent)
    turns = ", ".join(each.by.id for each in ledger.adjacent)
    terms = " + ".join([_number(ledger.fused_score), *shares])
    return f"adjacent {turns}: {terms} = {_number(_lifted(ledger))}"


def _lifted(ledger: Ledger) -> float:
    """The fused score with the shares of adjacent turns."""
    return ledger.fused_score + math.fsum(each.share * each.score for each in ledger.adjacent)


def _importance(importance: ImportanceTerm) -> str:
    effect = _times(importance) + _plus(importance) or " nothing"
    return f"importance {_number(importance.importance)}:{effect}"


def _times(importance: ImportanceTerm) -> str:
    return f" x {_number(importance.multiplier)}" if importance.multiplier != 1 else ""


def _plus(importance: ImportanceTerm) -> str:
    return f" + {_number(importance.boost)}" if importance.boost else ""


def _ageing(decay: DecayTerm) -> str:
    faded = f"2^-({_days(decay.age)} / {_days(decay.half_life)})"
    return f"max({_number(decay.floor)}, {faded}), in days" if decay.floor else f"{faded}, in days"


def _weighed(ledger: Ledger) -> str:
    importance, decay = ledger.importance, ledger.decay
    times = _times(importance) if importance is not None else ""
    aged = f" x {_number(decay.multiplier)}" if decay is not None else ""
    plus = _plus(importance) if importance is not None else ""
    return f"{_number(_lifted(ledger))}{times}{aged}{plus}"


def _coarse(ledger: Ledger) -> float:
    """The score before reranking."""
    score = _lifted(ledger)
    if ledger.importance is not None:
        score *= ledger.importance.multiplier
    if ledger.decay is not None:
        score *= ledger.decay.multiplier
    return score + (ledger.importance.boost if ledger.importance is not None else 0.0)


def _reranked(rerank: RerankTerm, ledger: Ledger) -> str:
    coarse = f"{_number(_coarse(ledger))} / {_number(rerank.scale)}"
    said = f"sigmoid({_number(rerank.logit)})"
    return f"{_number(1 - rerank.weight)} x {coarse} + {_number(rerank.weight)} x {said}"


def _currency(ledger: Ledger) -> str:
    before = _number(replace(ledger, currency=()).recompute())
    factors = " x ".join(_number(term.factor) for term in ledger.currency)
    reasons = "; ".join(map(_reason, ledger.currency))
    return f"what holds now: {before} x {factors} = {_number(ledger.recompute())} ({reasons})"


def _reason(term: CurrencyTerm) -> str:
    return term.reason.value if term.by is None else f"{term.reason.value} of {term.by.id}"


def _diversity(diversity: DiversityTerm) -> str:
    relevance = f"{_number(diversity.trade_off)} x {_number(diversity.relevance)}"
    likeness = f"{_number(1 - diversity.trade_off)} x {_number(diversity.max_similarity)}"
    like = f" (like {diversity.closest.id})" if diversity.closest else ""
    return f"diversity: {relevance} - {likeness} = {_number(diversity.value)}{like}"
