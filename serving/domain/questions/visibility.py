"""The items that a scope shows, and the reasons for which it hides others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from serving.domain.items.records import Fact, Item, Segment, is_expired
from serving.domain.items.validity import earliest
from serving.domain.questions.query import Scope


def visible(item: Item, scope: Scope) -> bool:
    """Returns whether a stored row may be shown; the legs have checked it on their own copies."""
    if is_expired(item, scope.as_of):
        return False
    if isinstance(item, Segment):
        return item.event_time <= scope.as_of and scope.segment_filter.accepts(item)
    return (
        item.id not in scope.filter.none_of.fact_ids
        and item.holds(scope.clocks)
        and _holds_within(item, scope)
    )


def hidden_by(item: Item, scope: Scope, evidence: Sequence[Segment]) -> str:
    """Returns why the scope hides a stored item; empty if it does not.

    One of the `evidence` segments of a fact must pass the filter.
    """
    if is_expired(item, scope.as_of):
        return "as_of: it has expired, or all of its evidence has"
    if isinstance(item, Segment):
        if item.event_time > scope.as_of:
            return f"as_of: it was said later, at {item.event_time.isoformat()}"
        if scope.known_at and item.created_at and scope.known_at < item.created_at:
            return f"known_at: it was recorded later, at {item.created_at.isoformat()}"
        return _named([f"filter.{name}" for name in scope.filter.failed_by(item)])
    if reason := _why_not_held(item, scope):
        return reason
    if not _holds_within(item, scope):
        return _named(["filter.event_time"])
    if item.id in scope.filter.none_of.fact_ids:
        return _named(["filter.none_of"])
    of_evidence = scope.filter.of_evidence
    if not of_evidence.restricts or any(map(of_evidence.accepts, evidence)):
        return ""
    if not evidence and not of_evidence.selects:
        return ""
    failed = [name for segment in evidence for name in of_evidence.failed_by(segment)]
    return _named([f"filter.{name}" for name in dict.fromkeys(failed)]) or "filter: no evidence"


def _named(fields: Sequence[str]) -> str:
    return f"{' and '.join(fields)}: it does not pass" if fields else ""


def _holds_within(fact: Fact, scope: Scope) -> bool:
    end = earliest(fact.held_until(scope.clocks), fact.searched_until)
    return scope.filter.event_time.overlaps(fact.valid_from, end)


def _why_not_held(fact: Fact, scope: Scope) -> str:
    if fact.holds(scope.clocks):
        return ""
    if scope.known_at is not None and fact.recorded_at > scope.known_at:
        return f"known_at: it was recorded later, at {fact.recorded_at.isoformat()}"
    known = (closing for closing in fact.closings if closing.known_by(scope.clocks))
    closed = [closing.by for closing in known if closing.at <= scope.as_of]
    if closed and replace(fact, closings=()).holds(scope.clocks):
        return f"as_of: the fact does not hold then, it was closed by {closed[0]}"
    if fact.retracted_at is not None and not scope.clocks.know(fact.recorded_at, fact.retracted_at):
        return f"known_at: it was retracted, at {fact.retracted_at.isoformat()}"
    return "as_of: the fact does not hold then"
