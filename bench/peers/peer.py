"""A peer: a library that finds passages by words and by meaning, in this process."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bm25s.stopwords import STOPWORDS_EN_PLUS

from serving.config.profiles import ProfileBook
from serving.ports.embedding import Vector

LIST_DEPTH = 20
"""Candidates of each list. With 50, what only one list finds rarely reaches the first ten."""

RANK_CONSTANTS = (60, int(ProfileBook.load()["default"].rank_constant))
"""The rank constants that a peer may fuse with: the usual one, and that of the service."""

STOP_WORDS: Sequence[str] = tuple(STOPWORDS_EN_PLUS)
"""Of every peer. Shorter lists cost BM25 several points of recall on spoken questions."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A stored text: a segment, or the sentence of a fact.

    `vector` is float32 (dimension,) of unit length. A hit counts for the segments `evidence`, of a
    segment itself.
    """

    id: str
    text: str
    vector: Vector
    evidence: Sequence[str]


Memories: TypeAlias = Mapping[str, Sequence[Passage]]
"""The passages of each tenant."""


class Peer(ABC):
    """A library that is searched in this process.

    Attributes:
        name: Its name in the tables.
        lacks: What it does not have, of what the service has.
        rank_constants: Those that it may fuse with; None if its fusion is its own.
        rank_constant: With which it fuses now.
    """

    name: str
    lacks: str
    rank_constants: Sequence[int | None] = RANK_CONSTANTS
    rank_constant: int | None = None

    @abstractmethod
    async def fill(self, memories: Memories) -> None:
        """Stores all passages of all tenants, and builds the indexes; called once."""

    @abstractmethod
    async def search(self, tenant: str, text: str, vector: Vector, limit: int) -> list[str]:
        """Finds passages of one tenant by words and by meaning, fused by reciprocal rank.

        `vector` is that of the question, float32 (dimension,) of unit length. Returns ids, best
        first.
        """

    def cpu_s(self) -> float:
        """The CPU seconds until now of this process, and of the peer's own ones."""
        return time.process_time()


def fused(lists: Sequence[Sequence[str]], limit: int, rank_constant: int | None) -> list[str]:
    """The ids of several ranked lists by the sum of their reciprocal ranks, best first."""
    assert rank_constant is not None, "chosen before the first search; this is a bug"
    scores: dict[str, float] = {}
    for ranked in lists:
        for rank, id_ in enumerate(ranked, start=1):
            scores[id_] = scores.get(id_, 0.0) + 1 / (rank_constant + rank)
    return sorted(scores, key=lambda id_: (-scores[id_], id_))[:limit]
