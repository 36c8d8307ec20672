"""Holding writes back while the projections are far behind."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from serving.domain.errors import OverloadedError, StoreUnavailableError
from serving.pipeline.writes.backpressure import MAX_PENDING, Backpressure
from serving.ports.change_log import ChangeLog


class CountedLog:
    """Answers with the next of the given states; the last holds."""

    def __init__(self, *states: bool | Exception) -> None:
        self._states = iter(states)
        self._last: bool | Exception = False
        self.reads = 0

    async def has_pending(self, count: int) -> bool:
        assert count == MAX_PENDING
        self.reads += 1
        self._last = next(self._states, self._last)
        if isinstance(self._last, Exception):
            raise self._last
        return self._last


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts for each write."""
    monkeypatch.setattr("serving.pipeline.writes.backpressure.READ_EVERY_S", 0.0)


def backpressure(log: CountedLog) -> Backpressure:
    return Backpressure(cast(ChangeLog, log))


async def test_write_is_refused_while_the_backlog_is_full() -> None:
    guard = backpressure(CountedLog(False, True, False))

    await guard.admit(patient=False)
    with pytest.raises(OverloadedError, match="the backlog of the projections is full"):
        await guard.admit(patient=False)
    await guard.admit(patient=False)


async def test_patient_write_waits_until_the_backlog_is_shorter() -> None:
    log = CountedLog(True, True, True, False)

    async with asyncio.timeout(10):
        await backpressure(log).admit(patient=True)

    assert log.reads == 4


async def test_backlog_is_counted_once_in_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.pipeline.writes.backpressure.READ_EVERY_S", 3600)
    log = CountedLog(True)
    guard = backpressure(log)

    for _ in range(3):
        with pytest.raises(OverloadedError) as refused:
            await guard.admit(patient=False)

    assert log.reads == 1
    assert refused.value.retry_after_s == 3600


@pytest.mark.parametrize("full", [True, False])
async def test_lost_store_leaves_the_state_as_known(*, full: bool) -> None:
    guard = backpressure(CountedLog(full, StoreUnavailableError("lost")))

    for _ in range(2):
        if full:
            with pytest.raises(OverloadedError):
                await guard.admit(patient=False)
        else:
            await guard.admit(patient=False)
