"""Access counts in memory."""

from __future__ import annotations

from serving.adapters.postgres.reads.access_tally import Shown, Tally
from serving.domain.consistency import Snapshot
from serving.domain.items.records import TenantName, segment_id
from tests.support.builders import NOON, TENANT, days

OTHER = TenantName("other")
A, B = segment_id("a"), segment_id("b")


def tally(*shown: tuple[TenantName, str, float]) -> Tally:
    """Each item accessed once, `days` after noon."""
    made = Tally()
    for tenant, name, day in shown:
        made.add(tenant, segment_id(name), Shown(1, NOON + days(day)))
    return made


def test_times_add_up_and_the_last_one_stays() -> None:
    shown = tally((TENANT, "a", 1), (TENANT, "a", 3), (TENANT, "a", 2))

    assert shown.of_tenant(TENANT) == {A: Shown(3, NOON + days(3))}


def test_its_length_is_that_of_all_tenants() -> None:
    shown = tally((TENANT, "a", 0), (OTHER, "a", 0), (OTHER, "a", 0), (OTHER, "b", 0))

    assert len(shown) == 3
    assert [(TENANT, A) in shown, (TENANT, B) in shown, (TenantName("new"), A) in shown] == [
        True,
        False,
        False,
    ]
    assert len(Tally()) == 0


def test_merged_tallies_stay_unchanged() -> None:
    one, two = tally((TENANT, "a", 1)), tally((TENANT, "a", 0), (OTHER, "b", 0))
    one.xid = 7

    both = one | two

    assert sorted(both) == [
        (TENANT, A, Shown(2, NOON + days(1))),
        (OTHER, B, Shown(1, NOON)),
    ]
    assert both.xid is None
    assert (len(one), len(two)) == (1, 2)


def test_tally_is_stored_once_its_transaction_is_visible() -> None:
    shown = tally((TENANT, "a", 0))
    assert not shown.is_stored_in(Snapshot(100))

    shown.xid = 50

    assert shown.is_stored_in(Snapshot(51))
    assert not shown.is_stored_in(Snapshot(50))
    assert not shown.is_stored_in(Snapshot(60, frozenset([50])))
