"""Queries a service for the lists of all questions of all sets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.progress import Progress

from bench.harness.collection import Collection, Query
from bench.harness.connections import Connections, connected
from bench.harness.service import running
from bench.quality.command import console
from bench.quality.scoring.evaluate import TIMEOUT_S
from bench.quality.session import Session
from bench.quality.tune.coordinates import (
    Coordinate,
    Definition,
    check_tunable,
    coordinates,
    reachable,
)
from bench.quality.tune.leg_queries import Asked, Asker, to_row
from bench.quality.tune.lists import Rows
from bench.quality.tune.replay import agrees
from bench.reports.progress import progress_bars
from serving.domain.ranking.profile import Profile, Yields
from trivium import tuning, values
from trivium.aio import AsyncClient

PAGE = 1000
"""Rows that are read at a time."""

CALLERS = 4
"""Questions asked at a time. What is found does not depend on it, and nothing is timed."""


@dataclass(frozen=True, slots=True)
class Start:
    """The profile that the search starts with, in both forms, and what it may change in it."""

    definition: Definition
    profile: Profile
    tried: Sequence[Coordinate]

    @classmethod
    def of(cls, name: str, profiles: Sequence[tuning.Profile]) -> Start:
        """Reads it from what the service lists.

        Raises:
            ValueError: There is none of that name, or it cannot be tuned.
        """
        by_name = {each.name: each.definition for each in profiles}
        profile = reachable(name, by_name[name]) if name in by_name else None
        if profile is None:
            raise ValueError(f"no profile is called {name!r}; known: {', '.join(sorted(by_name))}")
        check_tunable(profile)
        return cls(by_name[name], profile, coordinates(by_name[name], profile))


async def ask_sets(
    collections: Sequence[Collection], name: str, address: str | None
) -> tuple[Start, list[Asked]]:
    """Asks all judged questions of all sets.

    Args:
        collections: The sets; what the service lacks of them is written to it.
        name: Of the profile to start with.
        address: Of a running service; None starts one on fresh data.

    Raises:
        ValueError: The service has no such profile, or it cannot be tuned.
        NotWholeError: A leg did not answer.
        RejectedError: The service would not store all of a set.
        TriviumError: It did not answer.
    """
    asked: list[Asked] = []
    async with running(address) as target, connected(target, CALLERS) as connections:
        profiles = await connections.profiles()
        start = Start.of(name, profiles)
        for collection in collections:
            with progress_bars(console) as bars:
                session = Session(connections, profiles, bars)
                asked += await _ask_set(await session.store(collection), collection, start, bars)
    return start, asked


async def _ask_set(
    connections: Connections, collection: Collection, start: Start, bars: Progress
) -> list[Asked]:
    async def ask(query: Query, changes: Mapping[str, Any], limit: int) -> values.Retrieval:
        return await connections.ask(
            query,
            timeout=TIMEOUT_S,
            profile=start.profile.name,
            profile_overrides=changes,
            limit=limit,
            explain=True,
        )

    asker = Asker(ask, start.definition, start.profile, start.tried)
    tenants = {query.tenant for query in collection.judged}
    rows = {tenant: await _rows(connections.client(tenant), start.profile) for tenant in tenants}
    bar = bars.add_task(f"querying {collection.name}", total=len(collection.judged))
    waiting = iter(list(enumerate(collection.judged)))
    asked: dict[int, Asked] = {}

    async def caller() -> None:
        for place, query in waiting:
            asked[place] = await asker.asked(collection.name, query, rows[query.tenant])
            bars.advance(bar)

    try:
        async with asyncio.TaskGroup() as callers:
            for _ in range(CALLERS):
                callers.create_task(caller())
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    for place, each in asked.items():
        if not agrees(each, start.profile):
            # The words of a large memory are counted after the first question to it, so lists from
            # before and after do not fit together: the question is sent once more.
            query = collection.judged[place]
            asked[place] = await asker.asked(collection.name, query, rows[query.tenant])
    return [asked[place] for place in sorted(asked)]


async def _rows(client: AsyncClient, profile: Profile) -> Rows:
    """All that a tenant stores and that can be a hit."""
    stored = [to_row(each) async for each in client.list_segments(page_size=PAGE)]
    if any(leg.yields is Yields.FACTS for leg in profile.legs):
        stored += [to_row(each) async for each in client.list_facts(page_size=PAGE)]
    return {row.item: row for row in stored}
