"""A vector index in shares: all are asked at once, and what they find is one answer.

A share that does not answer takes its rows from the answer and nothing else; the answer says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, NotReadyError
from serving.domain.records import ItemId, TenantName
from serving.pipeline.index_answers import merged, status_of
from serving.ports import (
    IndexAnswer,
    IndexStatus,
    NeighbourSearch,
    VectorIndex,
    VectorLike,
    WantedNeighbours,
)

MOST_RESERVE_S = 0.05
"""What is kept for merging from a shard that hangs: a tenth of the time, and no more than this.
Without it the others' finds would come too late as well."""

Question = TypeVar("Question")

Result = IndexAnswer | DependencyError | TimeoutError
"""What a shard answers, or why it does not."""


class ShardedSearch(Generic[Question]):
    """A `NeighbourSearch` over those of all shards; a text is embedded where it is searched.

    Args:
        shards: One for each share of all rows, in their order.
    """

    def __init__(self, shards: Sequence[NeighbourSearch[Question]]) -> None:
        self._shards = list(shards)

    async def search(
        self, question: Question, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        """Finds the wanted neighbours of a question in all shards that answer.

        Raises:
            NotReadyError: No shard is ready.
            DependencyError: No shard answered.
            TimeoutError: No shard answered before the deadline.
        """
        until = deadline.earlier_by(min(MOST_RESERVE_S, deadline.remaining() / 10))
        results = await asyncio.gather(
            *(_ask(shard, question, wanted, until) for shard in self._shards)
        )
        return _one_answer(results, wanted.depth)


class ShardedIndex(ShardedSearch[VectorLike]):
    """A `VectorIndex` over those of all shards.

    Args:
        shards: An index of each share of all rows, in their order.
    """

    def __init__(self, shards: Sequence[VectorIndex]) -> None:
        super().__init__(shards)
        self._indexes = list(shards)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items they still hold; all must answer."""
        return sum(await asyncio.gather(*(index.count(tenant, items) for index in self._indexes)))

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until all have seen the write; False if the deadline passes first."""
        return all(
            await asyncio.gather(*(index.caught_up(token, deadline) for index in self._indexes))
        )

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        """The state of them all: ready if each is, with what they say of themselves.

        `tiers` are those of every shard, one after the other.
        """
        states = await asyncio.gather(*(status_of(index, tenant) for index in self._indexes))
        told = [(number, state) for number, state in enumerate(states) if state.reason]
        waiting = [state for state in states if not state.ready]
        of_all = f"of {len(states)}"
        return IndexStatus(
            ready=not waiting,
            vector_count=sum(state.vector_count for state in states),
            epoch=min(state.epoch for state in states),
            reason="; ".join(f"shard {number} {of_all}: {each.reason}" for number, each in told),
            incomplete=bool(waiting) and all(state.incomplete for state in waiting),
            tiers=tuple(tier for state in states for tier in state.tiers),
        )


async def _ask(
    shard: NeighbourSearch[Question], question: Question, wanted: WantedNeighbours, until: Deadline
) -> Result:
    """Asks one shard; what else it raises is a fault of the question."""
    try:
        async with asyncio.timeout(until.remaining()):
            return await shard.search(question, wanted, until)
    except (DependencyError, TimeoutError) as error:
        return error


def _one_answer(results: Sequence[Result], depth: int) -> IndexAnswer:
    answers = [result for result in results if isinstance(result, IndexAnswer)]
    if not answers:
        raise _none_answered([result for result in results if isinstance(result, Exception)])
    if len(answers) == len(results):
        return merged(answers, depth)
    missing = [
        f"shard {number}: {_reason(result)}"
        for number, result in enumerate(results)
        if isinstance(result, Exception)
    ]
    answered = f"{len(answers)} of {len(results)} shards answered"
    unsearched = IndexAnswer([], answers[0].epoch, unsearched="; ".join([answered, *missing]))
    return merged([*answers, unsearched], depth)


def _reason(error: Exception) -> str:
    return error.why if isinstance(error, DependencyError) else "it did not answer in time"


def _none_answered(errors: Sequence[Exception]) -> Exception:
    """What all shards raised, as one error."""
    if all(isinstance(error, TimeoutError) for error in errors):
        return TimeoutError()
    reasons = "; ".join(f"shard {number}: {_reason(error)}" for number, error in enumerate(errors))
    if all(isinstance(error, NotReadyError) for error in errors):
        return NotReadyError("index", reasons)
    return DependencyError("index", reasons)
