"""A device that takes time of a clock of its own, so that a second of load is over at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from serving.ports.embedding import Device, Embedding, EmbeddingModel, TokenIds, Vector, Vectors
from tests.fakes.meaning import FAKE_MODEL
from tests.support.stepped_clock import SteppedClock


@dataclass(frozen=True, slots=True)
class Ran:
    """A batch that ran: when, and which windows."""

    began: float
    ended: float
    windows: tuple[TokenIds, ...]


class SimulatedEncoder:
    """A `TextEncoder` on an accelerator that takes a time for any batch and one for each token.

    A text is written `NUMBER*TOKENS`: its tokens are its number, repeated. It is one window.
    """

    def __init__(
        self, clock: SteppedClock, *, batch_s: float, token_s: float, token_budget: int = 16_384
    ) -> None:
        self.ran: list[Ran] = []
        self._clock = clock
        self._batch_s = batch_s
        self._token_s = token_s
        self._token_budget = token_budget

    def cost_s(self, tokens: int) -> float:
        """The time for a batch."""
        return self._batch_s + self._token_s * tokens

    def model(self) -> EmbeddingModel:
        return FAKE_MODEL

    def device(self) -> Device:
        return Device(is_accelerator=True, token_budget=self._token_budget)

    def tokenize_query(self, text: str) -> TokenIds:
        number, _, count = text.partition("*")
        return [int(number)] * int(count)

    def tokenize_document(self, text: str) -> list[TokenIds]:
        return [self.tokenize_query(text)]

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        began = self._clock.now
        self._clock.now += self.cost_s(sum(map(len, windows)))
        self.ran.append(Ran(began, self._clock.now, tuple(windows)))
        return np.ones((len(windows), FAKE_MODEL.dimension), np.float32)

    def encode_documents(self, windows: Sequence[TokenIds]) -> Embedding:
        return Embedding(self.encode(windows))

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[Vector | None]:
        return [*self.encode(windows)]
