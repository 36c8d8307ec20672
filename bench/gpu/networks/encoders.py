"""Encoders for load tests without a checkpoint or without a device."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from bench.gpu.networks.random_weights import PUBLISHED, TINY_QWEN3, random_qwen3
from serving.adapters.encoder.on_device import to_host, vectors_by_length
from serving.adapters.encoder.published import open_model
from serving.adapters.encoder.windows import WindowTokenizer, encode_by_length
from serving.config.settings import default_cache_dir
from serving.models.device_vector import DeviceVector
from serving.models.passes import ACCELERATOR_TOKENS
from serving.models.precision import Precision
from serving.models.qwen3.architecture import Qwen3Architecture
from serving.ports.embedding import Device, EmbeddingModel, TokenIds, Vector, Vectors

DIMENSION = 1024
"""Of vectors; that of the network if it is smaller."""

TINY = "tiny"

SIZES: Mapping[str, Qwen3Architecture] = {**PUBLISHED, TINY: TINY_QWEN3}
"""The published ones, and one of no size."""


class _MiniLmTokens:
    """The tokenizer of all-MiniLM-L6-v2, which a desk has and which is as slow as others."""

    def __init__(self) -> None:
        checkpoint = open_model("minilm", default_cache_dir(), fetch=True)
        self.window = checkpoint.window
        self._tokenizer = WindowTokenizer(checkpoint)

    def tokenize_query(self, text: str) -> TokenIds:
        """Tokenizes a question; what exceeds the window is cut."""
        return self._tokenizer.query(text)

    def tokenize_document(self, text: str) -> list[TokenIds]:
        """Tokenizes a text into windows."""
        return self._tokenizer.document(text)


class SimulatedEncoder(_MiniLmTokens):
    """A `TextEncoder` on no device: it sleeps as long as one would compute.

    Args:
        batch_s: What any batch takes.
        token_s: What each token of it takes.
    """

    def __init__(self, batch_s: float, token_s: float) -> None:
        super().__init__()
        self._batch_s = batch_s
        self._token_s = token_s

    def model(self) -> EmbeddingModel:
        """A fingerprint of its own."""
        return EmbeddingModel("simulated", DIMENSION)

    def device(self) -> Device:
        """An accelerator, since it leaves the CPU alone."""
        return Device(is_accelerator=True, token_budget=ACCELERATOR_TOKENS)

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        """Makes one row per window, all alike."""
        time.sleep(self._batch_s + self._token_s * sum(map(len, windows)))
        return np.ones((len(windows), DIMENSION), np.float32)

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[Vector | None]:
        """Makes the same rows."""
        return [*self.encode(windows)]


class RandomQwen3Encoder(_MiniLmTokens):
    """A `TextEncoder` over a Qwen3 with random weights.

    Args:
        size: One of `SIZES`.
        device: As torch names it.
        precision: Of weights and arithmetic.
    """

    def __init__(self, size: str, device: str, precision: Precision) -> None:
        super().__init__()
        architecture = SIZES[size]
        network = random_qwen3(architecture, torch.device(device), precision, self.window)
        self._model = EmbeddingModel(
            f"random Qwen3 {size} in {precision}", min(DIMENSION, architecture.hidden)
        )
        self._passes = network.passes()
        self._device = Device(
            is_accelerator=network.device.type != "cpu", token_budget=self._passes.token_budget
        )

    def model(self) -> EmbeddingModel:
        """A fingerprint of its own."""
        return self._model

    def device(self) -> Device:
        """What computes it."""
        return self._device

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        """Makes one row per window, in their order."""
        run, budget = to_host(self._passes.run), self._passes.token_budget
        return encode_by_length(windows, run, self._model.dimension, budget)

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[DeviceVector | None]:
        """Makes the same rows, which stay on the device."""
        run, budget = self._passes.run, self._passes.token_budget
        return vectors_by_length(windows, run, self._model.dimension, budget)
