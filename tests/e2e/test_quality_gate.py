"""Ranking has not got worse: the sets that ship against their stored scores.

In one placement: what differs between the two is the way to a leg, and not what it finds.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from rich.progress import Progress

from bench.harness.collection import read_collection
from bench.harness.connections import connected
from bench.quality import memories, slices
from bench.quality.scoring.gate import Compared, compare, verdict
from bench.quality.scoring.stored import Row, read_rows, rows_of
from bench.quality.session import Session
from bench.quality.ways import DEFAULT_PROFILE, Way, gate_ways
from tests.fixtures.service import Service

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.neo4j,
    pytest.mark.ray,
    pytest.mark.model,
    pytest.mark.release,
    pytest.mark.timeout(600),
]

RELATIONS = "graph"
"""The leg that the default profile can least do without on these sets."""


async def asked(service: Service, *ways: Way) -> list[Row]:
    """What the sets score; they are written once, whichever test comes first."""
    rows: list[Row] = []
    async with connected(service.address, 1) as connections:
        profiles = await connections.profiles()
        session = Session(connections, profiles, Progress(disable=True))
        for folder in (*slices.FOLDERS, *memories.FOLDERS):
            collection = read_collection(folder)
            measured = await session.measure(collection, ways or gate_ways(profiles), explain=False)
            rows += (row for each in measured.answers for row in rows_of(collection.name, each))
    return rows


def fallen(compared: Sequence[Compared]) -> list[Compared]:
    return [each for each in compared if each.fell]


async def test_no_figure_fell_below_what_is_stored(service: Service) -> None:
    compared = compare(read_rows(slices.EXPECTED), await asked(service))

    assert not fallen(compared), verdict(compared)


async def test_a_leg_that_is_switched_off_is_noticed(service: Service) -> None:
    crippled = Way(DEFAULT_PROFILE).without(RELATIONS, name=DEFAULT_PROFILE)
    stored = [row for row in read_rows(slices.EXPECTED) if row.way == DEFAULT_PROFILE]

    compared = compare(stored, await asked(service, crippled))

    assert fallen(compared), verdict(compared)
