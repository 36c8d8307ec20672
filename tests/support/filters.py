"""Filters drawn at random, some of which have others within them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from serving.domain.questions.query import Exclusion, Filter, NumberRange, TimeRange
from tests.support.builders import NOON, days

VALUES = (
    *("3", "3.0", "-2.5", "1e2", "-0", "0", "007", "2026", "3 ", "x", ""),
    *("2026-03-01", "2026-03-01T12:00:00+02:00", "2026-03-01 12:00", "2026-02-30", "2026-03"),
)
"""Of labels: numbers, dates, and what looks like one."""

BOUNDS = st.none() | st.sampled_from([-2.5, -2.4, 0.0, -0.0, 2.0, 3.0, 100.0, 2026.0])
INSTANTS = st.none() | st.sampled_from([NOON - days(1), NOON - days(1 / 12), NOON, NOON + days(1)])
RANGES = st.builds(TimeRange, INSTANTS, INSTANTS)
CONDITIONS = (
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=2).map(tuple)
    | st.builds(NumberRange, BOUNDS, BOUNDS)
    | RANGES
    | st.booleans()
)
"""Of a label."""


def some(values: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    """None or up to two of the values."""
    return st.just(()) | st.lists(st.sampled_from(values), max_size=2).map(tuple)


def nested(flat: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    """Filters of a strategy, and the same with others within them."""

    def around(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
        within = st.lists(inner, max_size=2).map(tuple)
        return st.builds(_with_inner, flat, within, within, within)

    return flat | around(st.recursive(flat.map(_of_segments), around, max_leaves=6))


def _with_inner(
    filter_: Filter,
    all_of: tuple[Filter, ...],
    any_of: tuple[Filter, ...],
    none_of: tuple[Filter, ...],
) -> Filter:
    all_of, any_of, left_out = (
        tuple(map(_of_segments, each)) for each in (all_of, any_of, none_of)
    )
    excluded = replace(filter_.none_of, filters=left_out)
    return replace(filter_, all_of=all_of, any_of=any_of, none_of=excluded)


def _of_segments(filter_: Filter) -> Filter:
    """A filter as it may be within another one."""
    return replace(filter_, none_of=replace(filter_.none_of, fact_ids=()))


FILTERS = nested(
    st.builds(
        Filter,
        kinds=some(["turn", "note"]),
        labels=st.dictionaries(st.sampled_from(["a", "a=", "b"]), CONDITIONS, max_size=1),
        speakers=some(["ANN", "bob"]),
        sessions=some(["one", "two"]),
        entities=some(["ann", "Goa", "Carl"]),
        min_importance=st.sampled_from([0.0, 0.0, 0.3, 0.7]),
        event_time=st.just(TimeRange()) | RANGES,
        created_at=st.just(TimeRange()) | RANGES,
        updated_at=st.just(TimeRange()) | RANGES,
        none_of=st.just(Exclusion())
        | st.builds(
            Exclusion,
            kinds=some(["note"]),
            speakers=some(["Ann", "BOB"]),
            sessions=some(["one", "two"]),
            ids=some(["s0", "s1", "s2"]),
        ),
    )
)
"""Of the segments with these names."""
