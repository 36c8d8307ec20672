"""A sharded vector index: all shards are searched at once, and their answers are merged.

If a shard does not answer, only its rows are missing from the answer, which says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from serving.domain.budget import MERGING, Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, NotReadyError
from serving.domain.items.records import ItemId, TenantName
from serving.pipeline.index.merging import merged, status_of
from serving.ports.embedding import VectorLike
from serving.ports.vector_index import (
    IndexAnswer,
    IndexStatus,
    NeighbourSearch,
    VectorIndex,
    WantedNeighbours,
)

Question = TypeVar("Question")

Result = IndexAnswer | DependencyError | TimeoutError
"""The answer of a shard, or why there is none."""


class ShardedSearch(Generic[Question]):
    """A `NeighbourSearch` over all shards, in their order; a text is embedded by each shard."""

    def __init__(self, shards: Sequence[NeighbourSearch[Question]]) -> None:
        self._shards = list(shards)

    async def search(
        self, question: Question, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        """Finds the wanted neighbours in the shards that answer.

        If none does, raises `NotReadyError` if none is ready, `TimeoutError` if all were late, and
        `DependencyError` else.
        """
        until = MERGING.before(deadline)
        results = await asyncio.gather(
            *(_ask(shard, question, wanted, until) for shard in self._shards)
        )
        return _one_answer(results, wanted.depth)


class ShardedIndex(ShardedSearch[VectorLike]):
    """A `VectorIndex` over all shards, in their order."""

    def __init__(self, shards: Sequence[VectorIndex]) -> None:
        super().__init__(shards)
        self._indexes = list(shards)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """Returns how many of the items the shards still hold; all must answer."""
        return sum(await asyncio.gather(*(index.count(tenant, items) for index in self._indexes)))

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        waits = (index.caught_up(token, deadline) for index in self._indexes)
        return all(await asyncio.gather(*waits))

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        """Returns the state of all shards: ready if each is, with the reasons each gives.

        `tiers` are those of every shard.
        """
        states = await asyncio.gather(*(status_of(index, tenant) for index in self._indexes))
        unready = [(number, state) for number, state in enumerate(states) if state.reason]
        of_all = f"of {len(states)}"
        return IndexStatus(
            ready=all(state.ready for state in states),
            vector_count=sum(state.vector_count for state in states),
            epoch=min(state.epoch for state in states),
            reason="; ".join(f"shard {number} {of_all}: {each.reason}" for number, each in unready),
            tiers=tuple(tier for state in states for tier in state.tiers),
        )


async def _ask(
    shard: NeighbourSearch[Question], question: Question, wanted: WantedNeighbours, until: Deadline
) -> Result:
    """Searches one shard; any other error is the fault of the request, and is raised."""
    try:
        async with asyncio.timeout(until.remaining()):
            return await shard.search(question, wanted, until)
    except (DependencyError, TimeoutError) as error:
        return error


def _one_answer(results: Sequence[Result], depth: int) -> IndexAnswer:
    answers = [result for result in results if isinstance(result, IndexAnswer)]
    if not answers:
        raise _none_answered(results)
    if len(answers) == len(results):
        return merged(answers, depth)
    answered = f"{len(answers)} of {len(results)} shards answered; {_reasons(results)}"
    unsearched = IndexAnswer([], answers[0].epoch, unsearched=answered)
    return merged([*answers, unsearched], depth)


def _reasons(results: Sequence[Result]) -> str:
    return "; ".join(
        f"shard {number}: {each.why if isinstance(each, DependencyError) else 'no answer in time'}"
        for number, each in enumerate(results)
        if isinstance(each, Exception)
    )


def _none_answered(errors: Sequence[Result]) -> Exception:
    if all(isinstance(error, TimeoutError) for error in errors):
        return TimeoutError()
    all_prepare = all(isinstance(error, NotReadyError) for error in errors)
    return (NotReadyError if all_prepare else DependencyError)("index", _reasons(errors))
