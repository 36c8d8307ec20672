"""An immutable view of a tenant: the rows that a scope accepts, and the evidence of facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce

import numpy as np

from serving.adapters.vector_index.arrays import is_on_host
from serving.adapters.vector_index.rows.columns import ItemNumbers, Mask, among
from serving.adapters.vector_index.rows.view import AllowedRows, PartitionView
from serving.domain.items.instants import ClockTimes, Span, microseconds
from serving.domain.items.records import ItemId, ItemKind, fact_id, segment_id
from serving.domain.questions import filters
from serving.domain.questions.query import Filter, Scope, TimeRange
from serving.domain.ranking.holds.likeness import sampled, scale_of
from serving.ports.vector_index import CONTEXT, VectorKind, WantedNeighbours

Closed = Mapping[str, AbstractSet[str]]
"""Segments whose facts are all closed, each with the evidence of what closed them, by id."""

CACHED_MASKS = 32
CACHED_ENTITIES = 1024

EVENT_TIMES = ("event_time",)
FACT_TIMES = ("valid_from", "final_end", "retracted_at")
"""The times that decide, without any write, whether a fact holds at an instant."""


@dataclass(frozen=True, eq=False)
class TenantView:
    """The partitions of a tenant at one moment, with a cache of masks.

    `unembedded` are segments without vectors; they only decide which facts pass a filter.
    `generation` counts the list swaps of all tenants before this view was published.
    """

    segments: PartitionView
    facts: PartitionView
    contexts: PartitionView
    unembedded: PartitionView
    numbers: ItemNumbers
    number_count: int
    generation: int
    _cache: dict[object, AllowedRows] = field(default_factory=dict)
    _cache_by_span: dict[object, tuple[Span, AllowedRows]] = field(default_factory=dict)
    _mentioning: dict[str, list[int]] = field(default_factory=dict)
    _closed: dict[tuple[str, ...], tuple[Span, Closed]] = field(default_factory=dict)

    @property
    def _evidence(self) -> tuple[PartitionView, PartitionView]:
        """The views of the segments on which facts may rest."""
        return self.segments, self.unembedded

    def of_kind(self, kind: VectorKind) -> PartitionView:
        if kind == CONTEXT:
            return self.contexts
        return self.segments if kind is ItemKind.SEGMENT else self.facts

    @cached_property
    def scale(self) -> float:
        """The scale of the vectors on the host, by those of some segments."""
        if not is_on_host(self.segments.columns.vectors):
            return 1.0
        rows = sampled(self.segments.count)
        return scale_of(self.segments.vectors[rows][self.segments.alive[rows]])

    def mentioning(self, key: str) -> list[int]:
        """The first row of each segment that mentions an entity; none if many do. Cached."""
        rows = self._mentioning.get(key)
        if rows is None:
            if len(self._mentioning) >= CACHED_ENTITIES:
                self._mentioning.clear()
            rows = self._mentioning[key] = self.segments.mentioning(key)
        return rows

    def allowed(self, wanted: WantedNeighbours) -> AllowedRows:
        """The rows that the scope accepts, restricted to `wanted.only` if given."""
        scope = wanted.scope
        view = self.of_kind(wanted.kind)
        if wanted.kind is ItemKind.FACT:
            accepted = self._accepted_facts(scope)
        else:
            accepted = self.accepted(view, scope.segment_filter, microseconds(scope.as_of))
        if wanted.only is None:
            return accepted
        return AllowedRows(accepted.mask & self._rows_of(view, wanted.only))

    def accepted(self, view: PartitionView, filter_: Filter, as_of: int) -> AllowedRows:
        """The segments of a view that pass the filter and are not later than `as_of`, in us."""
        condition = filter_.condition
        key = (view, condition)
        passing = self._cached(key, lambda: view.alive & self._passing(view, condition))
        if view.latest_event <= as_of:
            return passing
        span = partial(view.unchanged_span, as_of, EVENT_TIMES)
        return self._cached_by_span(
            key, as_of, span, lambda: passing.mask & (view.time("event_time") <= as_of)
        )

    def _passing(self, view: PartitionView, condition: filters.Condition) -> Mask:
        """The rows of segments that pass a condition, dead ones included."""
        match condition:
            case filters.HasTerm(terms):
                return view.have_any(terms)
            case filters.HasTermWithin(first, end):
                return view.have_any_within(first, end)
            case filters.HasId(ids):
                return self._rows_of(view, map(segment_id, ids))
            case filters.IsImportant(least):
                return view.columns.importance[: view.count] >= least
            case filters.Within(time, start, end):
                return view.within(time, start, end)
            case filters.AllOf(parts):
                masks = (self._passing(view, part) for part in parts)
                return reduce(np.logical_and, masks, np.ones(view.count, np.bool_))
            case filters.AnyOf(parts):
                masks = (self._passing(view, part) for part in parts)
                return reduce(np.logical_or, masks, np.zeros(view.count, np.bool_))
            case filters.NoneOf(parts):
                return ~self._passing(view, filters.AnyOf(parts))

    def _rows_of(self, view: PartitionView, items: Iterable[ItemId]) -> Mask:
        # By number, which never changes: the partition's slots may be newer than this view.
        numbers = self.numbers.known(items, self.number_count)
        return view.numbered(numbers, self.number_count)

    def _accepted_facts(self, scope: Scope) -> AllowedRows:
        """The facts that hold, cached for the span in which no time of a fact passes.

        Not cached: queries with a `known_at`, since facts had other ends then.
        """
        clocks = ClockTimes.of(scope.clocks)
        if clocks.recorded_by is not None:
            return AllowedRows(self._holding_facts(scope, clocks))

        def span() -> Span:
            spans = [view.unchanged_span(clocks.as_of, EVENT_TIMES) for view in self._evidence]
            spans.append(self.facts.unchanged_span(clocks.as_of, FACT_TIMES))
            return Span(max(each.since for each in spans), min(each.until for each in spans))

        key = ("facts", scope.filter.condition, scope.filter.none_of.fact_ids)
        make = partial(self._holding_facts, scope, clocks)
        return self._cached_by_span(key, clocks.as_of, span, make)

    def _holding_facts(self, scope: Scope, clocks: ClockTimes) -> Mask:
        facts = self.facts
        as_of, ends = clocks.as_of, facts.ends(clocks)
        mask = facts.alive & facts.known(clocks)
        mask &= (facts.time("valid_from") <= as_of) & (ends > as_of)
        if scope.filter.event_time != TimeRange():
            mask &= facts.valid_within(scope.filter.event_time, ends)
        if fact_ids := scope.filter.none_of.fact_ids:
            mask &= ~self._rows_of(facts, map(fact_id, fact_ids))
        if scope.filter.of_evidence.restricts:
            rested = self._with_evidence(scope.segment_filter.of_evidence, as_of)
            if not scope.filter.of_evidence.selects:
                rested = rested | ~self._resting_on(lambda view: view.alive)
            mask &= rested
        return mask

    def closed(self, scope: Scope) -> Closed:
        """The segments whose facts are all closed, by id, with the evidence of what closed them.

        Kept as long as no time of a fact passes, unless the scope has a `known_at`.
        """
        clocks, left_out = ClockTimes.of(scope.clocks), scope.filter.none_of.fact_ids
        if clocks.recorded_by is not None:
            return self._find_closed(clocks, left_out)
        kept = self._closed.get(left_out)
        if kept is None or not kept[0].has(clocks.as_of):
            if len(self._closed) >= CACHED_MASKS:
                self._closed.clear()
            span = self.facts.unchanged_span(clocks.as_of, FACT_TIMES)
            kept = self._closed[left_out] = span, self._find_closed(clocks, left_out)
        return kept[1]

    def _find_closed(self, clocks: ClockTimes, left_out: Iterable[str]) -> Closed:
        facts, columns, highest = self.facts, self.facts.columns, self.number_count
        counted = facts.alive & facts.known(clocks) & (facts.time("valid_from") <= clocks.as_of)
        counted &= ~self._rows_of(facts, map(fact_id, left_out))
        over = counted & (facts.ends(clocks) <= clocks.as_of)
        if not over.any():
            return {}
        pairs = facts.evidence_pairs(highest)
        lasts = among(pairs[(counted & ~over)[pairs[:, 0]], 1], highest)
        found: dict[str, set[str]] = {}
        for slot in np.flatnonzero(over).tolist():
            segments = columns.evidence[slot]
            found |= {each: set() for each in segments if not lasts[self.numbers[segment_id(each)]]}
        slots, at, by = facts.closings(clocks).T
        are_due = over[slots] & (at <= clocks.as_of)
        slots, by = slots[are_due], by[are_due]
        closers = np.flatnonzero(facts.numbered(by, highest) & facts.alive)
        row_of = dict(zip(columns.numbers[closers].tolist(), closers.tolist(), strict=True))
        for slot, closer in zip(slots.tolist(), by.tolist(), strict=True):
            newer = columns.evidence[row_of[closer]] if closer in row_of else ()
            for segment in found.keys() & columns.evidence[slot]:
                found[segment].update(each for each in newer if each != segment)
        return found

    def _with_evidence(self, filter_: Filter, as_of: int) -> Mask:
        """The facts with an evidence segment that passes the filter."""
        look_up = partial(self._resting_on, lambda view: self.accepted(view, filter_, as_of).mask)
        if max(view.latest_event for view in self._evidence) > as_of:
            return look_up()
        return self._cached(("evidence", filter_.condition), look_up).mask

    def _resting_on(self, mask_of: Callable[[PartitionView], Mask]) -> Mask:
        """The facts with an evidence segment among these rows of each view."""
        numbers = [view.numbers_of(mask_of(view)) for view in self._evidence]
        return self.facts.resting_on(np.concatenate(numbers), self.number_count)

    def evidence_of(self, fact_slots: Iterable[int], scope: Scope) -> list[tuple[str, ...] | None]:
        """The ids of each fact's segments that the scope accepts; None if it rests on none here.

        Next to others, a segment that this index does not hold is accepted unless the filter
        selects.
        """
        filter_, as_of = scope.segment_filter, microseconds(scope.as_of)
        known = [(view, self.accepted(view, filter_, as_of).mask) for view in self._evidence]

        def accepts(segment: str) -> bool | None:
            for view, accepted in known:
                if (row := view.row_of(segment_id(segment))) is not None:
                    return bool(accepted[row])
            return None

        unknown = not scope.filter.selects

        def accepted_of(evidence: tuple[str, ...]) -> tuple[str, ...] | None:
            answers = {segment: accepts(segment) for segment in evidence}
            if all(answer is None for answer in answers.values()):
                return None
            return tuple(
                segment
                for segment in evidence
                if answers[segment] or (answers[segment] is None and unknown)
            )

        return [accepted_of(self.facts.columns.evidence[slot]) for slot in fact_slots]

    def _cached_by_span(
        self, key: object, as_of: int, span: Callable[[], Span], make: Callable[[], Mask]
    ) -> AllowedRows:
        """A mask that is the same for every instant of a span around `as_of`."""
        cached = self._cache_by_span.get(key)
        if cached is None or not cached[0].has(as_of):
            if len(self._cache_by_span) >= CACHED_MASKS:
                self._cache_by_span.clear()
            cached = self._cache_by_span[key] = span(), AllowedRows(make())
        return cached[1]

    def _cached(self, key: object, make: Callable[[], Mask]) -> AllowedRows:
        allowed = self._cache.get(key)
        if allowed is None:
            if len(self._cache) >= CACHED_MASKS:
                self._cache.clear()
            allowed = self._cache[key] = AllowedRows(make())
        return allowed
