"""Instants and durations are written as protobuf writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from serving.rpc.items import duration, timestamp

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
instants = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC) | zones)


@given(instants)
def test_instant_of_any_zone_equals_protobufs_own(instant: datetime) -> None:
    expected = Timestamp()
    expected.FromDatetime(instant)

    assert timestamp(instant) == expected


def test_no_instant_stays_unset() -> None:
    assert timestamp(None) is None


@given(st.floats(-1e9, 1e9))
def test_seconds_of_either_sign_equal_protobufs_own(seconds: float) -> None:
    expected = Duration()
    expected.FromNanoseconds(int(seconds * 1e9))

    assert duration(seconds) == expected
