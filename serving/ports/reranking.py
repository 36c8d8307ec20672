"""Reranking: relevance of texts to a question, scored pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from serving.domain.budget import Deadline
from serving.ports.embedding import Device


@dataclass(frozen=True, slots=True)
class Pair:
    """The tokens of a question and a text; `types` are the token types, if the model has them."""

    ids: Sequence[int]
    types: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.ids)


class CrossEncoder(Protocol):
    """A cross-encoder on one device. Synchronous.

    One thread scores at a time; one other may tokenize meanwhile.
    """

    def device(self) -> Device:
        """Returns the device that computes it."""

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        """Tokenizes the question with each text; texts are truncated to the model's window."""

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """Returns the raw logit of each text's relevance, in the order of the pairs."""


class Reranker(Protocol):
    """Scores the relevance of texts to a question."""

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        """Returns the raw logit of each text's relevance, in order; higher is better.

        Raises:
            NotReadyError: The model is not loaded; `why` says why.
            DependencyError: The model failed.
            OverloadedError: The queue is full.
            TooSlowError: It would take longer than until the deadline.
            TimeoutError: The deadline passed first.
        """
