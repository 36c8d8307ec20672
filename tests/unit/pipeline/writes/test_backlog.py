"""Changes that wait for a projection: in which order, and up to where they are projected."""

from __future__ import annotations

from serving.domain.consistency import Snapshot
from serving.domain.items.records import TenantName, segment_id
from serving.pipeline.writes.backlog import Backlog
from serving.ports.change_log import Change, ChangeBatch


def batch(xmax: int, changes: str, first_key: int = 0) -> ChangeBatch:
    """A batch of changes named by their tenant and a number, such as "a1 a2 b1"."""
    return ChangeBatch(
        [
            Change(first_key + place, TenantName(name[0]), segment_id(name), xmax - 1)
            for place, name in enumerate(changes.split())
        ],
        Snapshot(xmax),
        last=True,
    )


def taken(backlog: Backlog, limit: int) -> str:
    return " ".join(change.item.id for change in backlog.take(limit))


def test_tenants_have_their_turns_in_a_backlog() -> None:
    backlog = Backlog()
    backlog.add(batch(10, "a1 a2 a3 a4"))
    backlog.add(batch(20, "b1 a5 c1 b2", first_key=10))

    assert taken(backlog, 4) == "a1 b1 c1 a2"
    assert taken(backlog, 9) == "b2 a3 a4 a5"
    assert len(backlog) == 0


def test_position_moves_when_all_before_are_projected() -> None:
    backlog = Backlog()
    backlog.add(batch(10, "a1 a2"))
    backlog.add(batch(20, "b1", first_key=10))

    backlog.take(2)
    assert backlog.finish() is None
    backlog.take(1)
    assert backlog.finish() == Snapshot(20)


def test_batch_without_changes_moves_the_position() -> None:
    backlog = Backlog()
    backlog.add(batch(10, "a1"))
    backlog.add(batch(20, ""))

    assert backlog.read_up_to == Snapshot(20)
    assert backlog.finish() is None
    backlog.take(1)
    assert backlog.finish() == Snapshot(20)


def test_row_changed_twice_is_taken_once() -> None:
    backlog = Backlog()
    backlog.add(batch(10, "a1"))
    backlog.add(batch(20, "a1"))

    assert taken(backlog, 2) == "a1"
    assert backlog.finish() == Snapshot(20)
