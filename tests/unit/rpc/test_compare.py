from __future__ import annotations

from dataclasses import replace

import pytest

from serving.pipeline.retrieval.order.hit import Hit
from serving.rpc.compare import from_comparison, to_compare_call
from serving.rpc.items import from_reference
from tests.support.builders import NOON, ids, segment
from tests.support.refusals import refused_for
from tests.unit.rpc.test_retrieve import (
    A_LEDGER,
    DENSE,
    NOTHING_FOUND,
    PROFILES,
    call_of,
    changes,
    override,
    retrieve,
)
from trivium.v1.retrieval_service_pb2 import CompareRequest, CompareResponse, RankChange


def compare(**fields: object) -> CompareRequest:
    return CompareRequest(**fields)  # type: ignore[arg-type]


def test_a_comparison_asks_the_same_under_another_profile() -> None:
    changed = override(leg="lexical", weight=2)
    changed.limit = 3

    one, other = to_compare_call(compare(retrieve=changed, against="alone"), PROFILES, NOON)

    assert one.query == other.query
    assert (one.profile.name, other.profile.name) == ("default", "alone")
    assert one.profile.leg("lexical").weight == 2
    assert other.profile.limit == 3


def test_a_profile_can_be_compared_with_a_change_of_itself() -> None:
    one, other = to_compare_call(
        compare(retrieve=retrieve(), against_overrides=changes(limit=4)), PROFILES, NOON
    )

    assert (one.profile.limit, other.profile.limit) == (10, 4)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (compare(retrieve=retrieve(query="")), "retrieve.query"),
        (compare(retrieve=retrieve(), against="nobody"), "against"),
        (
            compare(retrieve=retrieve(), against_overrides=changes(limit=-1)),
            "against_overrides.limit",
        ),
    ],
)
def test_a_malformed_comparison_names_its_field(request_: CompareRequest, field: str) -> None:
    with refused_for(field):
        to_compare_call(request_, PROFILES, NOON)


def compared(left: str, right: str) -> CompareResponse:
    """The comparison of two answers with these segments."""
    call = call_of(DENSE)
    first, second = (
        replace(NOTHING_FOUND, hits=tuple(Hit(item=segment(each), ledger=A_LEDGER) for each in of))
        for of in (left, right)
    )
    return from_comparison((call, first), (call, second))


def test_item_has_its_rank_in_both_rankings() -> None:
    changes = compared("ab", "ca").rank_changes

    assert list(changes) == [
        RankChange(item=from_reference(item), rank=rank, against_rank=against)
        for item, rank, against in zip(ids("a", "b", "c"), [1, 2, None], [2, None, 1], strict=True)
    ]


def test_overlap_is_the_shared_part_of_all_items() -> None:
    assert compared("ab", "bc").overlap == 1 / 3
    assert compared("ab", "ba").overlap == 1.0
    assert compared("", "").overlap == 1.0
