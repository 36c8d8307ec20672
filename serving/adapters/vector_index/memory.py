"""What a search sees of a tenant: which rows a scope accepts, and what facts rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from serving.adapters.vector_index.allowed import Allowed
from serving.adapters.vector_index.columns import Mask, Numbers
from serving.adapters.vector_index.instants import ClockTimes, Span, microseconds
from serving.adapters.vector_index.view import ANY_TIME, View
from serving.domain.query import Filter, Scope
from serving.domain.records import ItemId, ItemKind, segment_id
from serving.ports import WantedNeighbours

CACHED_MASKS = 32

EVENT_TIMES = ("event_time",)
FACT_TIMES = ("valid_from", "final_end", "retracted_at")
"""What may go by without a write and change which facts hold; ends as they are known for good."""


@dataclass(frozen=True, eq=False)
class Memory:
    """What a search sees of a tenant: its shelves at one moment, and masks made of them.

    `witnesses` are segments without vectors, which only say which facts pass a filter.
    `generation` counts the swaps of lists, of any tenant, before it was published.
    """

    segments: View
    facts: View
    witnesses: View
    segment_slots: dict[ItemId, range]
    witness_slots: dict[ItemId, range]
    numbers: Numbers
    number_count: int
    generation: int
    _cache: dict[object, Allowed] = field(default_factory=dict)
    _steady: dict[object, tuple[Span, Allowed]] = field(default_factory=dict)

    def view(self, kind: ItemKind) -> View:
        """The rows of one kind."""
        return self.segments if kind is ItemKind.SEGMENT else self.facts

    def allowed(self, wanted: WantedNeighbours) -> Allowed:
        """The rows that the scope accepts, of all items or only of those to be considered."""
        scope = wanted.scope
        if wanted.kind is ItemKind.SEGMENT:
            accepted = self.accepted_segments(scope.segment_filter, microseconds(scope.as_of))
        else:
            accepted = self._accepted_facts(scope)
        if wanted.only is None:
            return accepted
        # By number, which never changes: the shelf's own slots may be ahead of this view.
        numbers = self.numbers.known(wanted.only, self.number_count)
        considered = self.view(wanted.kind).numbered(numbers, self.number_count)
        return Allowed(accepted.mask & considered)

    def accepted_segments(self, filter_: Filter, as_of: int) -> Allowed:
        """The segments that pass the filter and were there at the instant."""
        return self._accepted("segments", self.segments, filter_, as_of)

    def accepted_witnesses(self, filter_: Filter, as_of: int) -> Allowed:
        """The same of the segments without vectors."""
        return self._accepted("witnesses", self.witnesses, filter_, as_of)

    def _accepted(self, name: str, view: View, filter_: Filter, as_of: int) -> Allowed:
        key = (name, filter_key(filter_))
        passing = self._cached(key, lambda: view.passing(filter_))
        if view.latest_event <= as_of:
            return passing
        span = partial(view.steady_about, as_of, EVENT_TIMES)
        return self._while_steady(key, as_of, span, lambda: passing.mask & view.happened_by(as_of))

    def _accepted_facts(self, scope: Scope) -> Allowed:
        """The facts that hold, kept until a time of one of them goes by.

        Not kept: what a question alone asks for by what was known then, and what held before the
        last retraction of a closing, since ends were others then.
        """
        clocks = ClockTimes.of(scope.clocks)
        retracted_closing_counts = clocks.as_of < self.facts.last_retraction
        if clocks.recorded_by is not None or retracted_closing_counts:
            return Allowed(self._holding_facts(scope, clocks))

        def span() -> Span:
            of_facts = self.facts.steady_about(clocks.as_of, FACT_TIMES)
            for evidence in (self.segments, self.witnesses):
                of_evidence = evidence.steady_about(clocks.as_of, EVENT_TIMES)
                of_facts = of_facts.and_also(of_evidence)
            return of_facts

        key = ("facts", filter_key(scope.filter))
        make = partial(self._holding_facts, scope, clocks)
        return self._while_steady(key, clocks.as_of, span, make)

    def _holding_facts(self, scope: Scope, clocks: ClockTimes) -> Mask:
        facts = self.facts
        as_of, ends = clocks.as_of, facts.ends(clocks)
        mask = facts.alive & facts.known(clocks)
        mask &= (facts.time("valid_from") <= as_of) & (ends > as_of)
        if scope.filter.event_time != ANY_TIME:
            mask &= facts.valid_within(scope.filter.event_time, ends)
        if replace(scope.filter, event_time=ANY_TIME).restricts:
            of_evidence = replace(scope.segment_filter, event_time=ANY_TIME)
            mask &= self._with_evidence(of_evidence, as_of)
        return mask

    def _with_evidence(self, filter_: Filter, as_of: int) -> Mask:
        """The facts that rest on a segment which passes."""

        def look_up() -> Mask:
            numbers = [
                self.segments.numbers_of(self.accepted_segments(filter_, as_of).mask),
                self.witnesses.numbers_of(self.accepted_witnesses(filter_, as_of).mask),
            ]
            return self.facts.resting_on(np.concatenate(numbers), self.number_count)

        if max(self.segments.latest_event, self.witnesses.latest_event) > as_of:
            return look_up()
        return self._cached(("evidence", filter_key(filter_)), look_up).mask

    def evidence_of(self, fact_slots: Iterable[int], scope: Scope) -> list[tuple[str, ...]]:
        """The ids of each fact's segments that the scope accepts.

        A segment that is not known here is accepted unless the filter restricts.
        """
        filter_, as_of = scope.segment_filter, microseconds(scope.as_of)
        known = [
            (self.segment_slots, self.accepted_segments(filter_, as_of).mask),
            (self.witness_slots, self.accepted_witnesses(filter_, as_of).mask),
        ]
        unknown_pass = not scope.filter.restricts

        def accepts(segment: str) -> bool:
            for slots, accepted in known:
                rows = slots.get(segment_id(segment))
                # The slots may be ahead of this view.
                if rows is not None and rows.start < len(accepted):
                    return bool(accepted[rows.start])
            return unknown_pass

        evidence = self.facts.columns.evidence
        return [tuple(filter(accepts, evidence[slot])) for slot in fact_slots]

    def _while_steady(
        self, key: object, as_of: int, span: Callable[[], Span], make: Callable[[], Mask]
    ) -> Allowed:
        """A mask that is the same for every instant of a span about `as_of`."""
        kept = self._steady.get(key)
        if kept is None or not kept[0].has(as_of):
            if len(self._steady) >= CACHED_MASKS:
                self._steady.clear()
            kept = self._steady[key] = span(), Allowed(make())
        return kept[1]

    def _cached(self, key: object, make: Callable[[], Mask]) -> Allowed:
        allowed = self._cache.get(key)
        if allowed is None:
            if len(self._cache) >= CACHED_MASKS:
                self._cache.clear()
            allowed = self._cache[key] = Allowed(make())
        return allowed


def filter_key(filter_: Filter) -> object:
    """What distinguishes filters; they hold a mapping, which cannot be hashed."""
    groups = tuple(tuple(group) for group in filter_.term_groups())
    times = (filter_.event_time, filter_.created_at, filter_.updated_at)
    return groups, filter_.min_importance, times
