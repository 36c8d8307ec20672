"""Parts of a desk are killed under load: nothing acknowledged is lost, nothing comes twice."""

from __future__ import annotations

import pytest

from tests.chaos.desk import running_desk
from tests.chaos.faults import (
    KILL_CONTROLLER,
    KILL_INGRESS,
    KILL_NEO4J,
    KILL_POSTGRES,
    KILL_PROJECTOR,
    KILL_PROXY,
    KILL_RAYLET,
)
from tests.chaos.run import run

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]

FAULTS = (
    KILL_INGRESS,
    KILL_NEO4J,
    KILL_POSTGRES,
    KILL_PROJECTOR,
    KILL_PROXY,
    KILL_CONTROLLER,
    KILL_RAYLET,  # the desk ends and is started again, as `Desk.end_without` requires
)


async def test_killed_parts_lose_and_double_no_write() -> None:
    said: list[str] = []

    with running_desk("split") as desk:
        outcome = await run(desk, FAULTS, "split", 0, said.append)

    assert outcome.findings == []
    assert set(outcome.faults) == {fault.name for fault in FAULTS}
    assert outcome.checks == 1
    assert outcome.acknowledged > 8 * len(FAULTS)
    assert outcome.reads > 0
    assert outcome.failures, "no call has met a fault"
