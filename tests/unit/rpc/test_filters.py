"""Filters as they are read: labels, and filters within filters."""

from __future__ import annotations

import math
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from serving.domain.questions import query
from serving.rpc.check import Checker
from serving.rpc.filters import MAX_FILTER_DEPTH, MAX_FILTERS_WITHIN, to_filter
from tests.support.builders import segment
from tests.support.refusals import refused_for
from trivium.v1.filter_pb2 import Exclusion, Filter, LabelFilter, NumberRange, TimeRange

LATER = Timestamp(seconds=5)
NOTE = Filter(kinds=["note"])


def read(message: Filter) -> query.Filter:
    with Checker() as check:
        return to_filter(check, "filter", message)


def label(**condition: Any) -> Filter:
    return Filter(labels=[LabelFilter(key="a", **condition)])


def within(depth: int) -> Filter:
    """A filter nested to this depth."""
    return NOTE if depth == 0 else Filter(any_of=[within(depth - 1)])


@pytest.mark.parametrize(
    ("filter_", "field"),
    [
        (label(values=["b"], exists=True), "labels[0]"),
        (label(number=NumberRange(), date=TimeRange()), "labels[0]"),
        (label(number=NumberRange(min=2, max=1)), "labels[0].number.max"),
        (label(number=NumberRange(min=math.nan)), "labels[0].number.min"),
        (label(number=NumberRange(max=math.inf)), "labels[0].number.max"),
        (label(date=TimeRange(start=LATER, end=LATER)), "labels[0].date.end"),
        (Filter(any_of=[Filter()]), "any_of[0]"),
        (Filter(all_of=[NOTE, Filter(event_time=TimeRange())]), "all_of[1]"),
        (Filter(none_of=Exclusion(filters=[Filter()])), "none_of.filters[0]"),
        (Filter(all_of=[Filter(kinds=[""])]), "all_of[0].kinds[0]"),
        (
            Filter(any_of=[Filter(none_of=Exclusion(fact_ids=["f"]))]),
            "any_of[0].none_of.fact_ids",
        ),
        (Filter(any_of=[NOTE] * (MAX_FILTERS_WITHIN + 1)), f"any_of[{MAX_FILTERS_WITHIN}]"),
        (Filter(all_of=[within(90)]), "all_of[0]" + ".any_of[0]" * MAX_FILTER_DEPTH),
    ],
    ids=str,
)
def test_malformed_filter_names_its_field(filter_: Filter, field: str) -> None:
    with refused_for(f"filter.{field}"):
        read(filter_)


@pytest.mark.parametrize(
    "filter_", [within(MAX_FILTER_DEPTH), Filter(any_of=[NOTE] * MAX_FILTERS_WITHIN)]
)
def test_filter_at_the_bounds_is_read(filter_: Filter) -> None:
    found = read(filter_)

    assert found.accepts(segment("a", kind="note"))
    assert not found.accepts(segment("a"))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"values": ["", "b"]}, ("", "b")),
        ({"number": NumberRange(min=0)}, query.NumberRange(0.0, None)),
        ({"number": NumberRange()}, query.NumberRange()),
        ({"date": TimeRange()}, query.TimeRange()),
        ({"exists": False}, False),
    ],
    ids=str,
)
def test_condition_of_a_label_is_read(condition: dict[str, Any], expected: object) -> None:
    assert read(label(**condition)).labels == {"a": expected}
