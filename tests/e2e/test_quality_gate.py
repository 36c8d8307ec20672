"""Ranking has not got worse: the sets that ship against their stored scores.

In one placement: what differs between the two is the way to a leg, and not what it finds.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.harness.collection import read_collection
from bench.harness.connections import connected
from bench.quality import memories, slices
from bench.quality.run_config import DEFAULT_PROFILE, RunConfig, gate_configs
from bench.quality.scoring.gate import Compared, Row, compare, read_rows, rows_of, verdict
from bench.quality.session import measure
from tests.fixtures.service import Service

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]

RELATIONS = "graph"
"""The leg that the default profile can least do without on these sets."""


async def scored(service: Service, *configs: RunConfig) -> list[Row]:
    """The scores of the shipped sets; they are written once, whichever test comes first."""
    rows: list[Row] = []
    async with connected(service.address, 1) as connections:
        profiles = await connections.profiles()
        for folder in (*slices.FOLDERS, *memories.FOLDERS):
            collection = read_collection(folder)
            chosen = configs or gate_configs(profiles)
            answers = await measure(connections, profiles, collection, chosen)
            rows += (row for each in answers for row in rows_of(collection.name, each))
    return rows


def fallen(compared: Sequence[Compared]) -> list[Compared]:
    return [each for each in compared if each.fell]


async def test_no_score_fell_below_the_stored(service: Service) -> None:
    compared = compare(read_rows(slices.EXPECTED), await scored(service))

    assert not fallen(compared), verdict(compared)


async def test_silent_leg_fails_the_gate(service: Service) -> None:
    crippled = RunConfig(DEFAULT_PROFILE).without(RELATIONS, name=DEFAULT_PROFILE)
    stored = [row for row in read_rows(slices.EXPECTED) if row.way == DEFAULT_PROFILE]

    compared = compare(stored, await scored(service, crippled))

    assert fallen(compared), verdict(compared)
