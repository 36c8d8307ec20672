"""A vector index in shares: all are asked at once, and what they find is one answer.

A share that does not answer takes its rows from the answer and nothing else; the answer says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, NotReadyError
from serving.domain.query import Scope
from serving.domain.records import ItemId, ItemKind, TenantName
from serving.pipeline.index_answers import merged, status_of
from serving.ports import IndexAnswer, IndexStatus, SemanticSearch, Vector, VectorIndex

MOST_RESERVE_S = 0.05
"""What is kept for merging from a shard that hangs: a tenth of the time, and no more than this.
Without it the others' finds would come too late as well."""

Search = Callable[[Deadline], Coroutine[Any, Any, IndexAnswer]]


class ShardedIndex:
    """A `VectorIndex` over those of all shards.

    Args:
        shards: An index of each share of all rows, in their order.
    """

    def __init__(self, shards: Sequence[VectorIndex]) -> None:
        self._shards = list(shards)

    async def search(
        self,
        vector: Vector,
        kind: ItemKind,
        scope: Scope,
        depth: int,
        deadline: Deadline,
        token: ConsistencyToken | None = None,
        only: Collection[ItemId] | None = None,
    ) -> IndexAnswer:
        """Finds the `depth` nearest items of all shards that answer.

        Raises:
            NotReadyError: No shard is ready.
            DependencyError: No shard answered.
            TimeoutError: No shard answered before the deadline.
        """

        def asking(shard: VectorIndex) -> Search:
            return lambda until: shard.search(vector, kind, scope, depth, until, token, only)

        return await _ask_all([asking(shard) for shard in self._shards], depth, deadline)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items they still hold; all must answer."""
        return sum(await asyncio.gather(*(shard.count(tenant, items) for shard in self._shards)))

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until all have seen the write; False if the deadline passes first."""
        return all(
            await asyncio.gather(*(shard.caught_up(token, deadline) for shard in self._shards))
        )

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        """The state of them all: ready if each is, with what they say of themselves.

        `tiers` are those of every shard, one after the other.
        """
        states = await asyncio.gather(*(status_of(shard, tenant) for shard in self._shards))
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


class ShardedSemanticSearch:
    """A `SemanticSearch` over those of all shards: each embeds the question where it searches.

    Args:
        shards: One for each share of all rows, in their order.
    """

    def __init__(self, shards: Sequence[SemanticSearch]) -> None:
        self._shards = list(shards)

    async def search(
        self,
        text: str,
        kind: ItemKind,
        scope: Scope,
        depth: int,
        deadline: Deadline,
        token: ConsistencyToken | None = None,
        only: Collection[ItemId] | None = None,
    ) -> IndexAnswer:
        """Finds what is nearest to a question in all shards that answer.

        Raises:
            NotReadyError: No shard is ready.
            DependencyError: No shard answered.
            TimeoutError: No shard answered before the deadline.
        """

        def asking(shard: SemanticSearch) -> Search:
            return lambda until: shard.search(text, kind, scope, depth, until, token, only)

        return await _ask_all([asking(shard) for shard in self._shards], depth, deadline)


async def _ask_all(searches: Sequence[Search], depth: int, deadline: Deadline) -> IndexAnswer:
    until = deadline.earlier_by(min(MOST_RESERVE_S, deadline.remaining() / 10))
    results = await asyncio.gather(*(_ask(search, until) for search in searches))
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


async def _ask(search: Search, until: Deadline) -> IndexAnswer | DependencyError | TimeoutError:
    """What a shard answers, or why it does not; what else it raises is a fault of the question."""
    try:
        async with asyncio.timeout(until.remaining()):
            return await search(until)
    except (DependencyError, TimeoutError) as error:
        return error


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
