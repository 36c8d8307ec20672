"""What a peer is: a library that finds passages by words and by meaning, in this process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bm25s.stopwords import STOPWORDS_EN_PLUS

from serving.ports.embedding import Vector

LIST_DEPTH = 20
"""Candidates of each list. With 50, what only one list finds rarely reaches the first ten."""

RANK_CONSTANT = 60

STOP_WORDS: Sequence[str] = tuple(STOPWORDS_EN_PLUS)
"""Of every peer. Shorter lists cost BM25 several points of recall on spoken questions."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A stored text; `vector` is float32 (dimension,) of unit length."""

    id: str
    text: str
    vector: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFact:
    """A fact with the vector of its sentence, and the ids of the passages that it rests on."""

    subject: str
    relation: str
    object: str
    sentence: str
    vector: Vector
    evidence: Sequence[str]


class Peer(Protocol):
    """A library that is searched in this process.

    Attributes:
        name: Its name in the tables.
        lacks: What it does not have, of what the service has.
    """

    name: str
    lacks: str

    async def fill(self, memories: Mapping[str, Sequence[Passage]]) -> None:
        """Stores all passages of all tenants, and builds the indexes; called once."""
        ...

    async def search(self, tenant: str, text: str, vector: Vector, limit: int) -> list[str]:
        """Finds passages of one tenant by words and by meaning, fused by reciprocal rank.

        Args:
            tenant: Whose passages are searched.
            text: The question.
            vector: Its vector, float32 (dimension,) of unit length.
            limit: The most ids to return.

        Returns:
            Ids, best first.
        """
        ...

    def cpu_s(self) -> float:
        """The CPU seconds until now of this process, and of the peer's own ones."""
        ...


class InProcess:
    """Base class of peers without processes of their own."""

    def cpu_s(self) -> float:
        """The CPU seconds until now of this process."""
        return time.process_time()


def fused(lists: Sequence[Sequence[str]], limit: int) -> list[str]:
    """The ids of several ranked lists by the sum of their reciprocal ranks, best first."""
    scores: dict[str, float] = {}
    for ranked in lists:
        for rank, id_ in enumerate(ranked, start=1):
            scores[id_] = scores.get(id_, 0.0) + 1 / (RANK_CONSTANT + rank)
    return sorted(scores, key=lambda id_: (-scores[id_], id_))[:limit]
