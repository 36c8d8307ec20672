"""A filter holds within each leg, before its depth: a small limit returns all that pass."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import timedelta
from itertools import product

import pytest

from tests.fixtures.local_service import FOLLOW_WITHIN_S, local_service
from tests.fixtures.postgres import fresh_database
from tests.fixtures.shared_service import NOW, without
from trivium import AsyncClient, Fact, Filter, Item, NumberRange, Segment
from trivium.errors import UnavailableError

# The legs of one store each are held to this by the contract tests, with fewer rows.
pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.release]

MANY = 5000
PASSING = [2501, 2502, 2503]
NARROW = Filter(any_of=[Filter(labels={"day": NumberRange(PASSING[0], PASSING[-1])})])
OTHER_WORDS = (" with cake", " and tea", " under palms")
QUESTION = "What did Ann see in Goa?"

LEGS = {
    "default": ["lexical", "dense", "context", "facts", "graph", "related"],
    "facts": ["lexical", "dense", "facts", "graph"],
    "opening": ["important", "holding"],
    "object_graph": ["temporal"],
}
NOT_ASKED = {"default": ["replies", "temporal", "holding"], "object_graph": ["dense", "graph"]}


def items() -> list[Item]:
    segments = [
        Segment(
            id=f"s{n}",
            # `related` leaves out what has the same score in each other leg.
            text=f"Ann did see day {n} in Goa" + "".join(OTHER_WORDS[: max(0, n - PASSING[0] + 1)]),
            importance=0.9,
            session=f"trip {n // 10}",
            labels={"day": str(n)},
            entities=["Goa", *(["Old Fort"] if n in PASSING else [])],
            event_time=NOW - timedelta(minutes=n),
        )
        for n in range(MANY)
    ]
    facts = [
        Fact(id=f"f{n}", subject="Ann", relation="saw", object=f"Day {n}", evidence=[f"s{n}"])
        for n in range(0, MANY, 25)
    ]
    passing = [
        Fact(id=f"f{n}", subject="Ann", relation="did see", object="Goa", evidence=[f"s{n}"])
        for n in PASSING
    ]
    return [*segments, *facts, *passing]


async def test_narrow_filter_finds_all_that_pass(postgres_server: str, neo4j_uri: str) -> None:
    found: dict[tuple[str, str, bool], list[str]] = {}
    with fresh_database(postgres_server) as dsn:
        async with local_service(dsn, neo4j_uri, view_bytes=2**28) as memory:
            token = await store(memory, items())

            for profile, legs in LEGS.items():
                for leg, in_memory in product(legs, [True, False]):
                    ids = await ids_found_by(memory, profile, leg, token, in_memory=in_memory)
                    found[profile, leg, in_memory] = ids

    expected = {(profile, leg, view): expected_of(profile, leg) for profile, leg, view in found}
    assert found == expected


WITH_FLOOR = {"dense", "context", "facts", "graph", "related"}
OF_FACTS = {("facts", "facts"), ("facts", "graph")}


def expected_of(profile: str, leg: str) -> list[str]:
    """What passes, by id."""
    facts, segments = [f"f{n}" for n in PASSING], [f"s{n}" for n in PASSING]
    if leg == "holding":
        # Of the facts the newest, and of the segments: each says the same.
        return ["f2503", "s2501"]
    return facts if (profile, leg) in OF_FACTS else segments


async def store(memory: AsyncClient, given: Sequence[Item]) -> str:
    """Stores the items; returns the token of the last write."""
    token = ""
    for start in range(0, len(given), 1000):
        token = (await memory.ingest(given[start : start + 1000], timeout=60)).consistency_token
    return token


async def ids_found_by(
    memory: AsyncClient, profile: str, leg: str, token: str, *, in_memory: bool
) -> list[str]:
    """What a leg finds alone, with the legs that it begins at, in a short list."""
    begins_at = ["lexical"] if leg == "related" else []
    others = [each for each in LEGS[profile] if each not in (leg, *begins_at)]
    others += NOT_ASKED.get(profile, [])
    async with asyncio.timeout(3 * FOLLOW_WITHIN_S):
        while True:
            with contextlib.suppress(UnavailableError):  # it is behind
                found = await memory.retrieve(
                    QUESTION,
                    profile=profile,
                    leg_overrides=without(*others),
                    profile_overrides={
                        "fold_repeats": False,
                        "in_memory": in_memory,
                        "legs": {leg: {"depth": 4} | ({"floor": -1} if leg in WITH_FLOOR else {})},
                    },
                    filter=NARROW,
                    limit=4,
                    as_of=NOW,
                    consistency_token=token,
                    required_legs=[leg],
                    timeout=30,
                )
                return sorted(hit.item.id for hit in found.hits if leg in hit.legs)
