from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import LiteralString

import pytest

from serving.adapters.neo4j.planning import BackgroundPlanning
from serving.domain.errors import DependencyError

PATIENCE_S = 10.0


class Planner:
    """Plans searches: fails for a `rejected` one, and blocks on a `slow` one."""

    def __init__(self) -> None:
        self.background = BackgroundPlanning(self.plan)
        self.asked: list[str] = []
        self.planned: list[str] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.all_planned = asyncio.Event()

    async def plan(self, search: LiteralString) -> None:
        self.asked.append(search)
        if search == "rejected":
            raise DependencyError("graph", "Neo4j did not answer")
        if search == "slow":
            self.begun.set()
            await self.gate.wait()
        self.planned.append(search)
        if search == "last":
            self.all_planned.set()


@pytest.fixture
async def planner() -> AsyncIterator[Planner]:
    planner = Planner()
    yield planner
    await planner.background.stop(within_s=0)


async def test_searches_are_planned_in_turn_without_waiting(planner: Planner) -> None:
    planner.background.start(["slow", "last"])
    at_once = list(planner.asked)
    await planner.begun.wait()
    meanwhile = list(planner.asked)
    planner.gate.set()
    await planner.all_planned.wait()

    assert (at_once, meanwhile, planner.planned) == ([], ["slow"], ["slow", "last"])


async def test_unplannable_search_is_logged_before_the_next(
    planner: Planner, caplog: pytest.LogCaptureFixture
) -> None:
    planner.background.start(["rejected", "last"])
    await planner.all_planned.wait()

    [logged] = caplog.records
    assert logged.getMessage() == "search plan not prepared"
    assert logged.__dict__["reason"] == "graph: Neo4j did not answer"


async def test_restarted_planner_plans_every_search_again(planner: Planner) -> None:
    planner.background.start(["slow", "second", "last"])
    await planner.begun.wait()
    planner.background.start(["first", "second", "last"])
    planner.gate.set()
    await planner.all_planned.wait()

    assert planner.planned == ["slow", "first", "second", "last"]


async def test_stopped_planner_finishes_only_the_current_search(planner: Planner) -> None:
    planner.background.start(["slow", "last"])
    await planner.begun.wait()
    stopping = asyncio.create_task(planner.background.stop(PATIENCE_S))
    await asyncio.sleep(0)
    planner.gate.set()
    await stopping

    assert planner.planned == ["slow"]


async def test_stopped_planner_abandons_a_slow_search(planner: Planner) -> None:
    planner.background.start(["slow"])
    await planner.begun.wait()
    await planner.background.stop(within_s=0)
    planner.gate.set()
    await asyncio.sleep(0)

    assert planner.planned == []
