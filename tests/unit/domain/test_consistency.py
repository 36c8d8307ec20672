from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.consistency import NOTHING_SEEN, ConsistencyToken, Snapshot

xids = st.integers(3, 200)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    xmax = draw(xids)
    return Snapshot(xmax, frozenset(xid for xid in draw(st.frozensets(xids)) if xid < xmax))


@given(snapshots())
def test_a_snapshot_survives_being_written_and_read(snapshot: Snapshot) -> None:
    assert Snapshot.parse(str(snapshot)) == snapshot


@given(snapshots(), st.frozensets(xids), xids)
def test_excluded_transactions_are_not_included(
    snapshot: Snapshot, left_out: frozenset[int], xid: int
) -> None:
    without = snapshot.without(left_out)

    assert without.includes(xid) == (snapshot.includes(xid) and xid not in left_out)


@given(snapshots(), xids, xids)
def test_transactions_after_the_newest_are_not_included(
    snapshot: Snapshot, newest: int, xid: int
) -> None:
    limited = snapshot.up_to(newest)

    assert limited.includes(xid) == (snapshot.includes(xid) and xid <= newest)


@given(snapshots(), xids)
def test_xmin_is_below_everything_not_included(snapshot: Snapshot, xid: int) -> None:
    if not snapshot.includes(xid):
        assert xid >= snapshot.xmin


def test_empty_position_has_seen_no_write() -> None:
    assert not NOTHING_SEEN.includes(3)


@given(st.frozensets(xids, min_size=1, max_size=9), snapshots())
def test_token_is_seen_with_all_its_writes(written: frozenset[int], snapshot: Snapshot) -> None:
    token = ConsistencyToken.parse(str(ConsistencyToken.of("e", written)))

    assert token.seen_by(snapshot) == all(snapshot.includes(xid) for xid in written)


def test_long_token_waits_up_to_its_newest_write() -> None:
    token = ConsistencyToken.of("e", range(10, 200))

    assert len(str(token)) < 40
    assert not token.seen_by(Snapshot(300, frozenset({15})))
    assert token.seen_by(Snapshot(300, frozenset({250})))


@given(st.frozensets(xids, max_size=90), st.frozensets(xids, max_size=90), snapshots())
def test_a_merged_token_is_never_seen_before_both(
    left: frozenset[int], right: frozenset[int], snapshot: Snapshot
) -> None:
    merged = ConsistencyToken.of("e", left).merged(ConsistencyToken.of("e", right))

    if merged.seen_by(snapshot):
        assert all(snapshot.includes(xid) for xid in left | right)


@pytest.mark.parametrize("text", ["", "x", "1~~0~", "2~e~0~5", "1~e~0~five", "1~e"])
def test_an_invalid_token_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        ConsistencyToken.parse(text)
