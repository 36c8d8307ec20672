"""Deadlines: created once at the edge. What remains is split by the rules at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant of a monotonic clock. In another process it is as many seconds away as here."""

    at: float
    clock: Callable[[], float] = field(default=time.monotonic, compare=False, repr=False)

    def __reduce__(self) -> tuple[Callable[[float], Deadline], tuple[float]]:
        """Is pickled as the seconds that remain, as every process has a clock of its own."""
        return Deadline.after, (self.remaining(),)

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """The deadline `seconds` from now."""
        return cls(clock() + seconds, clock)

    def remaining(self) -> float:
        """The seconds that are left; never negative."""
        return max(0.0, self.at - self.clock())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return self.remaining() == 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The part of the remaining time for a step: a share, within `min_s` and `max_s`.

    It never gets more than `max_share`, whatever `min_s` is.
    """

    share: float = 0.0
    min_s: float = 0.0
    max_s: float = math.inf
    max_share: float = 1.0

    def seconds(self, deadline: Deadline) -> float:
        """The time that the step gets."""
        left_s = deadline.remaining()
        return min(max(self.share * left_s, self.min_s), self.max_s, self.max_share * left_s)

    def before(self, deadline: Deadline) -> Deadline:
        """The end of what is done before the step."""
        return Deadline(deadline.at - self.seconds(deadline), deadline.clock)

    def only(self, deadline: Deadline) -> Deadline:
        """The end of the step, if it begins now."""
        return Deadline.after(self.seconds(deadline), deadline.clock)


MIN_ANSWER_S = 0.002
"""No answer takes less. A query with less left is late and not refused: to retry would not help."""

RESPONSE = Split(share=0.1)
"""Sending the response, of what remains of the gRPC call."""

NAME_CORRECTION = Split(share=0.1, min_s=0.010, max_s=0.100, max_share=0.25)
"""Reading the names that a query may mean. The legs wait for it."""

RANKING = Split(share=0.1, min_s=0.020, max_s=0.100, max_share=0.25)
"""Reading rows and ranking, after the legs: 4 ms, and several times as long on a busy machine or
after a wait for a late leg, in which others took the core."""

RERANKED_ORDER = Split(min_s=0.003)
"""Ordering the reranked hits, after the reranker."""

GRAPH_WALK = Split(share=0.5)
"""Walking the graph, after waiting for a write: a stale answer has to fit."""

VECTOR_SEARCH = Split(share=0.05, min_s=0.020, max_s=0.200, max_share=0.5)
"""Searching the index, after waiting for a write. A longer reserve costs callers with seconds
little, and turns a timeout into a stale answer on a busy machine."""

BY_MEANING = Split(share=0.5)
"""Ordering what was said at a named time by its meaning. An index that hangs leaves time to list
the latest."""

ADJACENT_TURNS = Split(share=0.25)
"""Asking the index which candidates are adjacent, of what is left to rank. One that hangs leaves
time to read rows."""

MERGING = Split(share=0.1, max_s=0.050)
"""Merging the answers of shards. A shard that hangs must not make those of the others late."""
