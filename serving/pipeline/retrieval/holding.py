"""The facts that hold, and the newest statement of each subject."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

from serving.domain.budget import Deadline
from serving.domain.items.records import Fact, Item, ItemId, Segment
from serving.domain.questions.query import Scope
from serving.domain.questions.visibility import visible
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.ranking.repeats import newest_of_repeats
from serving.domain.ranking.subjects import newest_by_subject
from serving.ports.memory_store import MemoryStore
from serving.ports.timeline import Timeline
from serving.ports.vector_index import CandidateIndex

MAX_READ = 200
"""The newest facts of a search, and the newest segments, among which is chosen."""

FactsAbout = tuple[Scope, Sequence[str]]
"""The scope of facts, and names of which each has one as subject or object; without, all facts."""


class Holding:
    """Chooses from what PostgreSQL has; searches for nothing."""

    def __init__(
        self, store: MemoryStore, timeline: Timeline, index: CandidateIndex | None = None
    ) -> None:
        self._store = store
        self._timeline = timeline
        self._index = index

    async def items(
        self, facts_about: Sequence[FactsAbout], said: Scope, deadline: Deadline
    ) -> list[Item]:
        """Returns facts and statements in turn, of each the newest first.

        The facts of a search come before those of the next; a closed one is no fact that holds, and
        of several that say the same the newest is. Of the segments of `said`, those are left out
        that `newest_by_subject` leaves out, and those that rest on closed facts alone.

        Raises:
            StoreUnavailableError: PostgreSQL cannot be reached.
        """
        holding: dict[ItemId, Fact] = {}
        for scope, names in facts_about:
            found = await self._timeline.holding(scope, MAX_READ, deadline, entities=names)
            rows = await self._rows(found, scope, deadline)
            holding |= {row.item: row for row in rows if isinstance(row, Fact)}
        repeated = newest_of_repeats(holding.values())
        facts = [fact for item, fact in holding.items() if repeated.get(item, item) == item]
        latest = await self._timeline.latest(said, MAX_READ, deadline)
        turns = [
            row for row in await self._rows(latest, said, deadline) if isinstance(row, Segment)
        ]
        closed = self._index.closed(said, [each.item for each in turns]) if self._index else {}
        statements = newest_by_subject((each for each in turns if each.item not in closed), facts)
        in_turn = chain.from_iterable(zip_longest(facts, statements))
        return [item for item in in_turn if item is not None]

    async def _rows(
        self, found: Sequence[Candidate], scope: Scope, deadline: Deadline
    ) -> list[Item]:
        """The rows of what was found, in its order, which the scope still shows."""
        items = [candidate.item for candidate in found]
        rows = await self._store.load(scope.tenant, items, deadline) if items else {}
        return [rows[item] for item in items if item in rows and visible(rows[item], scope)]
