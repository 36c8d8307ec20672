"""Items by their times, or by their importance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from serving.domain.budget import Deadline
from serving.domain.items.period import Period
from serving.domain.questions.query import Scope
from serving.domain.ranking.ranked_list import Candidate


class Timeline(Protocol):
    """Finds items by their times and their importance alone; no sensitive ones."""

    async def latest(
        self, scope: Scope, depth: int, deadline: Deadline, *, earliest_first: bool = False
    ) -> list[Candidate]:
        """Returns the latest segments of the scope, or the earliest, best first.

        The score is the event time in seconds since 1970, negated for the earliest.
        """

    async def mentioning(
        self, period: Period, scope: Scope, depth: int, deadline: Deadline
    ) -> list[Candidate]:
        """Returns the latest segments of the scope whose text speaks of a part of the period.

        What speaks of a time much longer than the period is not about it. The score is the event
        time in seconds since 1970.
        """

    async def important(
        self, scope: Scope, least: float, depth: int, deadline: Deadline
    ) -> list[Candidate]:
        """Returns the segments of at least this importance, by importance, then the latest first.

        Scored by importance.
        """

    async def holding(
        self, scope: Scope, depth: int, deadline: Deadline, *, entities: Sequence[str] = ()
    ) -> list[Candidate]:
        """Returns the facts that hold by the clocks of the scope, the last to begin first.

        With `entities`, those that have one of these as subject or object, compared as names.
        Scored by `Fact.begins` in seconds. The filter holds for them as in a vector index.
        """
