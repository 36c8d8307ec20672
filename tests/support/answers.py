"""Short ways to read what the client brings back."""

from __future__ import annotations

from trivium import Hit, Ledger, LegState, Retrieval


def ids(answer: Retrieval) -> list[str]:
    return [hit.id for hit in answer.hits]


def by_id(answer: Retrieval) -> dict[str, Hit]:
    return {hit.id: hit for hit in answer.hits}


def ranks(hit: Hit) -> dict[str, float]:
    return {term.leg: term.rank for term in ledger(hit).leg_terms}


def ledger(hit: Hit) -> Ledger:
    assert hit.ledger is not None
    return hit.ledger


def aged(hit: Hit) -> float:
    decay = ledger(hit).decay
    assert decay is not None
    return decay.multiplier


def states(answer: Retrieval) -> dict[str, LegState]:
    return {report.leg: report.state for report in answer.leg_reports}


def counts(answer: Retrieval) -> dict[str, int]:
    """How many candidates each leg brought."""
    return {report.leg: report.candidate_count for report in answer.leg_reports}
