"""Any known reranker, on any device that torch knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from serving.adapters.reranker.checkpoint import Checkpoint, Kind
from serving.adapters.reranker.pairs import Inputs, Pair, batches_by_length, padded
from serving.adapters.reranker.qwen3_reranker import Qwen3Reranker
from serving.adapters.reranker.sequence_classifier import SequenceClassifier
from serving.domain.errors import DependencyError

PADDED_TOKENS = {"cpu": 512, "cuda": 16_384}
"""Of a pass, by the sort of device; the CPU gains nothing from a larger one."""


class PairModel(Protocol):
    """How one kind of checkpoint reads a question and a text."""

    padding: int
    """The token that fills up a row."""

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        """Makes one row of each text; what exceeds the window is cut from the text."""
        ...

    def logits(self, inputs: Inputs) -> Tensor:
        """Float (n,): the relevance of each row."""
        ...


KINDS: Mapping[Kind, Callable[[Checkpoint, str], PairModel]] = {
    Kind.ONE_LOGIT: SequenceClassifier,
    Kind.YES_OR_NO: Qwen3Reranker,
}


class TorchCrossEncoder:
    """A `CrossEncoder` in float32.

    Args:
        checkpoint: What to load.
        device: As torch names it: "cpu", "cuda", "cuda:1".
        threads: Torch's threads for one forward pass, on the thread that makes this object and
            on those that use torch for the first time after it; None leaves them.

    Raises:
        DependencyError: The checkpoint or the device cannot be used.
    """

    def __init__(
        self, checkpoint: Checkpoint, *, device: str = "cpu", threads: int | None = 1
    ) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        try:
            self._device = torch.device(device)
            self._model = KINDS[checkpoint.kind](checkpoint, device)
            self._padded_tokens = PADDED_TOKENS.get(self._device.type, PADDED_TOKENS["cuda"])
            # The first pass is slow, and shows whether there can be any.
            self.score("who?", ["nobody"])
        except DependencyError:
            raise
        except Exception as error:
            # A checkpoint can be wrong in as many ways as the library has layers.
            why = f"cannot be loaded on {device!r} ({type(error).__name__})"
            raise DependencyError("reranker", why) from error

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """The raw logit of each text's relevance, in their order; higher is better."""
        pairs = self._model.tokenize(query, texts) if texts else []
        logits = [0.0] * len(texts)
        for batch in batches_by_length([len(pair) for pair in pairs], self._padded_tokens):
            made = self._run([pairs[place] for place in batch])
            for place, logit in zip(batch, made, strict=True):
                logits[place] = logit
        return logits

    @torch.inference_mode()
    def _run(self, batch: Sequence[Pair]) -> list[float]:
        inputs = padded(batch, self._model.padding)
        on_device = {name: rows.to(self._device) for name, rows in inputs.items()}
        logits: list[float] = self._model.logits(on_device).float().tolist()
        return logits
