"""The input of a leg, its answer, and the attributes of its class."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import ClassVar, TypeVar

from serving.domain.breaker import DependencyCalls
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId
from serving.domain.questions.named_times import NamedTimes
from serving.domain.questions.query import Query
from serving.domain.ranking.fusion import PUBLISHED_RANK_CONSTANT
from serving.domain.ranking.profile import LegSpec, Profile
from serving.domain.ranking.ranked_list import Candidate, RankedList, RankStyle
from serving.pipeline.index.vector_space import VectorLookup
from serving.ports.change_log import Projection
from serving.ports.resident_view import ResidentView
from serving.ports.vector_index import IndexAnswer, WantedNeighbours

SEED_RANK_CONSTANT = PUBLISHED_RANK_CONSTANT
"""Fuses lists for seeds, in every profile and whatever its own `rank_constant` is."""

NOTHING_TO_LOOK_UP = "nothing to look up"
"""Why a leg is skipped that could find nothing. Its answer is complete."""


class LegSkippedError(Exception):
    """The leg has no input to search with; the message says why."""


@dataclass(frozen=True, slots=True)
class LegAnswer:
    """The candidates of a leg, best first.

    `lacking` names the upstream legs that failed and why; the leg answered without them.
    `unsearched` says why some rows were not searched, `in_memory` whether all is from memory.
    """

    candidates: Sequence[Candidate]
    below_floor: int = 0
    stale: bool = False
    index_epoch: int | None = None
    lacking: str = ""
    unsearched: str = ""
    in_memory: bool = False


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """The candidates of upstream legs, by their names; none of one that did not answer.

    `skipped` and `broken` give the reasons of these, such as "dense: its weight is 0".
    """

    found: Mapping[str, Sequence[Candidate]]
    skipped: Sequence[str]
    broken: Sequence[str]

    @property
    def candidates(self) -> list[Candidate]:
        """All candidates, leg by leg."""
        return list(chain.from_iterable(self.found.values()))

    @property
    def items(self) -> list[ItemId]:
        """The distinct items, in order."""
        return list(dict.fromkeys(candidate.item for candidate in self.candidates))

    @property
    def missing(self) -> list[str]:
        """The reasons of all that did not answer."""
        return [*self.broken, *self.skipped]

    @property
    def lacking(self) -> str:
        """The upstream legs that failed, as `LegAnswer.lacking`."""
        return "; ".join(self.broken)


NO_BREAKERS = DependencyCalls({})

Times = Callable[[], NamedTimes]
"""Reads the times that a question names."""

HasFacts = Callable[[], asyncio.Future[bool]]
"""Whether the tenant has facts, as `MemoryStore.has_facts`."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class LegRequest:
    """The input of a leg.

    `query.scope` has the lookback of its `spec`, which is one of the `profile`. `times` and
    `has_facts` read once for all legs. `found_before` awaits what upstream legs find. Each call of
    a dependency goes through `ask`, which makes it one of the `calls` of the question.
    `view` is what may be answered from memory, if the profile has it so.
    """

    query: Query
    spec: LegSpec
    profile: Profile
    is_shed: bool
    lookup: VectorLookup
    deadline: Deadline
    depth: int
    times: Times
    has_facts: HasFacts
    found_before: Callable[[Sequence[str]], Awaitable[UpstreamAnswer]]
    calls: DependencyCalls
    view: ResidentView | None

    def ask(
        self,
        dependency: str,
        call: Callable[[Deadline], Awaitable[Answer]],
        within: Deadline | None = None,
    ) -> Awaitable[Answer]:
        """Calls one of `DEPENDENCIES`, by default until the leg's deadline.

        A wait for other legs is no part of the call, since a late leg is no fault of the
        dependency.

        Raises:
            BreakerOpenError: The dependency is not asked.
            TimeoutError: It did not answer in time.
        """
        return self.calls.ask(dependency, within or self.deadline, call)

    async def nearest(
        self, wanted: WantedNeighbours, within: Deadline | None = None
    ) -> IndexAnswer:
        """Looks the question up in the index, once it is embedded; raises as `ask`."""
        await self.embed(within)
        return await self.ask("index", partial(self.lookup.nearest, wanted), within)

    async def embed(self, within: Deadline | None = None) -> None:
        """Embeds the question, unless it is or the index does that; raises as `ask`."""
        if self.lookup.is_to_embed:
            await self.ask("embedder", self.lookup.embed, within)


class Leg(ABC):
    """Finds candidates for a question in one way.

    Its class says what the service has to know of it.

    Attributes:
        name: Its name in profiles and reports.
        options: The options that a profile may give it, beyond those of all legs.
        projection: What it reads of the change log; None for PostgreSQL itself.
        dependency: Which of `DEPENDENCIES` its candidates come from; empty for one that has a
            choice.
        by_meaning: Whether what it finds is near to the question, whatever words it has.
        ranks_by_text: Whether its scores depend on text and question alone, so that equal texts
            have equal scores.
        sheddable: Whether a busy service may leave it out.
        needs_question: Whether it searches for something; without, it finds the same whatever the
            question, which may be empty if all legs of the profile are such ones.
        needs_facts: Skip this leg if the tenant has no facts (only with a floor).
        finds_sensitive: Whether it finds sensitive items, which are in PostgreSQL alone.
    """

    name: ClassVar[str]
    options: ClassVar[frozenset[str]]
    projection: ClassVar[Projection | None]
    dependency: ClassVar[str]
    by_meaning: ClassVar[bool]
    ranks_by_text: ClassVar[bool]
    sheddable: ClassVar[bool] = False
    needs_question: ClassVar[bool] = True
    needs_facts: ClassVar[bool] = False
    finds_sensitive: ClassVar[bool] = False

    @abstractmethod
    async def find(self, request: LegRequest) -> LegAnswer:
        """Finds at most `request.depth` candidates.

        Raises:
            LegSkippedError: There is no input to search with.
            TimeoutError: The deadline passed.
        """

    def is_at_hand(self, request: LegRequest) -> bool:
        """Whether `find` waits for nothing: all that it asks is in this process.

        It is then awaited in turn, without a task, a time limit or a breaker of its own.
        """
        del request
        return False

    def find_in_memory(self, request: LegRequest) -> LegAnswer | None:
        """Finds the same at once, if `request.view` has all of it; raises as `find`."""
        del request
        return None


def by_name(*legs: type[Leg]) -> dict[str, type[Leg]]:
    """Returns legs by their names.

    Raises:
        TypeError: The class of a leg lacks an attribute.
    """
    for leg in legs:
        if missing := [name for name in Leg.__annotations__ if not hasattr(leg, name)]:
            raise TypeError(f"{leg.__name__} must set {', '.join(missing)} (see Leg)")
    return {leg.name: leg for leg in legs}


def fused_by_rank(found: Mapping[str, Sequence[Candidate]]) -> list[ItemId]:
    """Returns what several legs found, best first, as seeds for another leg."""
    worths = defaultdict[ItemId, list[float]](list)
    for leg, candidates in found.items():
        ranks = RankedList(leg, tuple(candidates)).ranks(RankStyle.MEAN)
        for candidate, rank in zip(candidates, ranks, strict=True):
            worths[candidate.item].append(1 / (SEED_RANK_CONSTANT + rank))
    # The same rank is worth the same in each leg; what the first of the legs found comes first.
    return sorted(worths, key=lambda item: -math.fsum(worths[item]))


def require_text(query: Query) -> None:
    """Raises `LegSkippedError` for a query that is a vector alone."""
    if not query.text.strip():
        raise LegSkippedError("the request has a vector and no text")
