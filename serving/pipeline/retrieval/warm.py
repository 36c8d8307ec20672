"""Prepares for the first question of a tenant, as when the phone rings."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from serving.domain.budget import Deadline
from serving.domain.errors import AllLegsFailedError, OverloadedError
from serving.domain.questions.name_index import words_of
from serving.domain.questions.query import Query
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.legs.leg import NOTHING_TO_LOOK_UP
from serving.pipeline.retrieval.retrieve import Retriever
from serving.ports.resident_view import ResidentView
from serving.ports.words import NameResolver

NAMES, MEMORY = "names", "memory"
OUT_OF_TIME = "the budget ran out"
SKIPPED = "the leg was not searched"
QUESTION = "Who said hello to whom, and when?"
"""A question that every leg answers; it names nobody, and is no question of stop words only."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """Something that the next question needs; `reason` says why it would still wait for it."""

    part: str
    elapsed_s: float
    reason: str = ""

    @property
    def warm(self) -> bool:
        """Whether it would not wait."""
        return not self.reason


class Warmer:
    """Runs the legs once, so that the next question waits for nothing that one had to load.

    The legs open connections, and load the tenant's word statistics and vectors. The names are read
    in addition, since a question gives them a part of its time only; and the tenant is loaded into
    memory, for which no question waits.
    """

    def __init__(
        self, retriever: Retriever, names: NameResolver, view: ResidentView | None = None
    ) -> None:
        self._retriever = retriever
        self._names = names
        self._view = view

    async def warm(self, query: Query, profile: Profile, deadline: Deadline) -> list[Warmed]:
        """Returns what was loaded, and why something was not; raises as `Retriever.warm`."""
        names, legs, memory = await asyncio.gather(
            self._read_names(query, deadline),
            self._run_legs(query, profile, deadline),
            self._load(query, deadline),
        )
        return [names, *memory, *legs]

    async def _load(self, query: Query, deadline: Deadline) -> list[Warmed]:
        """Loads the tenant into memory; one that cannot be there waits for nothing else."""
        if self._view is None:
            return []
        started = time.perf_counter()
        is_held = await self._view.load(query.scope.tenant, deadline)
        if not is_held and not deadline.passed:
            return []
        return [Warmed(MEMORY, time.perf_counter() - started, "" if is_held else OUT_OF_TIME)]

    async def _read_names(self, query: Query, deadline: Deadline) -> Warmed:
        started = time.perf_counter()
        reason = ""
        try:
            await self._names.meant(query.scope.tenant, list(words_of(query.text)), deadline)
        except TimeoutError:
            reason = OUT_OF_TIME
        except OverloadedError as error:
            reason = str(error)
        return Warmed(NAMES, time.perf_counter() - started, reason)

    async def _run_legs(self, query: Query, profile: Profile, deadline: Deadline) -> list[Warmed]:
        try:
            reports = await self._retriever.warm(query, profile, deadline)
        except AllLegsFailedError as error:
            return [
                Warmed(leg.name, 0.0, error.reasons.get(leg.name, SKIPPED)) for leg in profile.legs
            ]
        return [
            Warmed(each.leg, each.elapsed_s, each.reason.removeprefix(NOTHING_TO_LOOK_UP))
            for each in reports
        ]
