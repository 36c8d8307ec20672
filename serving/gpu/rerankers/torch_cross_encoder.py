"""Any known reranker, on any device that torch supports."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch

from serving.adapters.encoder.windows import batches_by_length
from serving.adapters.reranker.checkpoint import Kind, RerankerCheckpoint
from serving.domain.errors import DependencyError
from serving.gpu.networks.errors import CheckpointError, DeviceMemoryError
from serving.gpu.networks.passes import use_threads
from serving.gpu.networks.precision import Precision
from serving.gpu.rerankers.qwen3_reranker import Qwen3Reranker
from serving.gpu.rerankers.sequence_classifier import SequenceClassifier
from serving.ports.embedding import Device
from serving.ports.reranking import Pair


class PairModel(Protocol):
    """One kind of checkpoint: tokenization and forward pass."""

    token_budget: int
    """The most tokens of a batch, padding included; a single pair may have more."""

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        """Makes one pair of each text; what exceeds the window is cut from the text."""

    def logits(self, batch: Sequence[Pair]) -> list[float]:
        """The logit of each pair of a batch, which has at least one."""


KINDS: Mapping[Kind, Callable[[RerankerCheckpoint, str, Precision], PairModel]] = {
    Kind.ONE_LOGIT: SequenceClassifier,
    Kind.YES_OR_NO: Qwen3Reranker,
}


class TorchCrossEncoder:
    """A `CrossEncoder` for every known kind of checkpoint, on a device as torch names it.

    `threads` are torch's for one forward pass, on this thread and on those that first use torch
    later.

    Raises:
        DependencyError: The checkpoint or the device cannot be used, or logits are not finite.
    """

    def __init__(
        self,
        checkpoint: RerankerCheckpoint,
        *,
        device: str = "cpu",
        precision: Precision = "float32",
        threads: int = 1,
    ) -> None:
        use_threads(device, threads)
        try:
            self._model = KINDS[checkpoint.kind](checkpoint, device, precision)
            self._device = Device(
                is_accelerator=torch.device(device).type != "cpu",
                token_budget=self._model.token_budget,
            )
            # The first pass is slow, and proves that the model works.
            (logit,) = self.score(self.tokenize("who?", ["nobody"]))
        except DependencyError:
            raise
        except (CheckpointError, DeviceMemoryError) as error:
            raise DependencyError("reranker", str(error)) from error
        except Exception as error:
            # A damaged checkpoint can fail anywhere in the library.
            why = f"cannot be loaded on {device!r} ({type(error).__name__})"
            raise DependencyError("reranker", why) from error
        if not math.isfinite(logit):
            raise DependencyError("reranker", f"the logits are not finite in {precision}")

    def device(self) -> Device:
        return self._device

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        return self._model.tokenize(query, texts) if texts else []

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        logits = [0.0] * len(pairs)
        for batch in batches_by_length([len(pair) for pair in pairs], self._device.token_budget):
            made = self._model.logits([pairs[place] for place in batch])
            for place, logit in zip(batch, made, strict=True):
                logits[place] = logit
        return logits
