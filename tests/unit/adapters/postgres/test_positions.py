from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.postgres.log.change_log import position_after
from serving.adapters.postgres.log.compaction import covers
from serving.domain.consistency import Snapshot

XIDS = range(3, 40)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    xmax = draw(st.integers(3, 40))
    return Snapshot(xmax, frozenset(xid for xid in range(3, xmax) if draw(st.booleans())))


@st.composite
def later_snapshots(draw: st.DrawFn) -> tuple[Snapshot, Snapshot]:
    """A snapshot and a later one."""
    earlier = draw(snapshots())
    xmax = draw(st.integers(earlier.xmax, 40))
    running = frozenset(
        xid for xid in range(3, xmax) if not earlier.includes(xid) and draw(st.booleans())
    )
    return earlier, Snapshot(xmax, running)


@given(later_snapshots(), st.data())
def test_stopped_reader_has_seen_only_handled_changes(
    taken: tuple[Snapshot, Snapshot], data: st.DataObject
) -> None:
    position, now = taken
    logged = [xid for xid in XIDS if now.includes(xid) and not position.includes(xid)]
    if not logged:
        return
    newest = data.draw(st.sampled_from(logged))

    reached = position_after(position, now, newest)

    unhandled = [xid for xid in logged if xid > newest]
    expected = now.without(unhandled)
    assert [xid for xid in XIDS if reached.includes(xid)] == [
        xid for xid in XIDS if expected.includes(xid)
    ]


def test_position_stays_short_for_any_backlog() -> None:
    reached = position_after(Snapshot(3), Snapshot(1_000_000), newest=10)

    assert str(reached) == "11:11:"


@given(snapshots(), snapshots())
def test_snapshot_covers_another_only_if_complete(left: Snapshot, right: Snapshot) -> None:
    if covers(left, right):
        assert all(left.includes(xid) for xid in XIDS if right.includes(xid))


@given(later_snapshots())
def test_a_later_snapshot_covers_an_earlier_one(taken: tuple[Snapshot, Snapshot]) -> None:
    earlier, later = taken

    assert covers(later, earlier)
