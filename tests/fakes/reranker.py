"""Close reading without a model: a cross-encoder that counts shared words, and ways to fail."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from serving.pipeline.inference.reranker import QueuedReranker
from serving.ports.embedding import Device
from serving.ports.reranking import CrossEncoder, Pair
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import Gate

SEPARATOR = "\0"
AMPLE = 10_000


class FakeCrossEncoder:
    """A `CrossEncoder` whose logit is the number of words that the text shares with the question.

    Its tokens are the characters of both and one between them. `batches` are the texts it was
    given, call by call.
    """

    def __init__(self, *, token_budget: int = AMPLE) -> None:
        self.batches: list[list[str]] = []
        self._device = Device(is_accelerator=False, token_budget=token_budget)

    def device(self) -> Device:
        return self._device

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        return [Pair([*map(ord, f"{query}{SEPARATOR}{text}")]) for text in texts]

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        read = ["".join(map(chr, pair.ids)).split(SEPARATOR) for pair in pairs]
        self.batches.append([text for _, text in read])
        return [float(len(set(query.split()) & set(text.split()))) for query, text in read]


class GatedCrossEncoder(FakeCrossEncoder):
    """Is held at its gate with every batch."""

    def __init__(self, *, token_budget: int = AMPLE) -> None:
        super().__init__(token_budget=token_budget)
        self.gate = Gate()

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        logits = super().score(pairs)
        self.gate.pass_through()
        return logits


class PoisonedCrossEncoder(FakeCrossEncoder):
    """Fails when it meets the text "poison"."""

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        logits = super().score(pairs)
        if "poison" in self.batches[-1]:
            raise RuntimeError("poisoned batch")
        return logits


class FixedCrossEncoder(FakeCrossEncoder):
    """Makes the same logits of whatever it is given, or fails."""

    def __init__(self, outcome: Sequence[float] | Exception) -> None:
        super().__init__()
        self._outcome = outcome

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return list(self._outcome)


class TimedCrossEncoder(FakeCrossEncoder):
    """Takes a second of the test's clock for each token."""

    def __init__(self, clock: SteppedClock) -> None:
        super().__init__()
        self._clock = clock

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        self._clock.now += sum(map(len, pairs))
        return super().score(pairs)


class ScriptedLoad:
    """Loads the given outcomes, one by one; is held at its gate each time."""

    def __init__(self, *outcomes: CrossEncoder | Exception) -> None:
        self.gate = Gate()
        self.times = 0
        self._outcomes = list(outcomes)

    def __call__(self) -> CrossEncoder:
        self.times += 1
        self.gate.pass_through()
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def settled(reranker: QueuedReranker) -> None:
    """Waits until no model is being loaded."""
    async with asyncio.timeout(30):
        while reranker.is_loading:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)
