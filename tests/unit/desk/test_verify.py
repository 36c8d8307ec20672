"""How `trivium-server verify` names differences."""

from __future__ import annotations

import pytest

from serving.commands.verify import lines_of
from serving.domain.items.records import TenantName, fact_id, segment_id
from serving.ports.verification import Difference, Finding
from tests.support.builders import TENANT


def test_difference_names_ten_items_and_counts_all() -> None:
    many = [Finding("graph", Difference.STALE, TENANT, segment_id(f"s{n}")) for n in range(11)]

    [line] = lines_of(many)

    assert line.startswith(f"tenant {TENANT!r}, graph: stale: 11 (segment s0, ")
    assert line.endswith("segment s9, ...)")


@pytest.mark.parametrize("hostile", ["a\x1b[2J", "a\nno differences", "a\u202eb", "a\x9b2J"])
def test_no_id_of_a_caller_steers_the_terminal(hostile: str) -> None:
    subjects = (segment_id(hostile), f"entity {hostile}")
    lines = lines_of([Finding("graph", Difference.STALE, TENANT, each) for each in subjects])

    assert [line for line in lines if not line.isprintable()] == []


def test_tenants_stores_and_differences_have_lines() -> None:
    missing = Finding("embeddings", Difference.MISSING, TENANT, fact_id("f"))
    left_over = Finding("embeddings", Difference.LEFT_OVER, TenantName(""), "17")

    assert lines_of([missing, left_over]) == [
        f"tenant {TENANT!r}, embeddings: missing: 1 (fact f)",
        "no tenant, embeddings: left over: 1 (17)",
    ]
