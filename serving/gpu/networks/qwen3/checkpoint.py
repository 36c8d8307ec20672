"""Loads a Qwen3 from a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from serving.gpu.networks.errors import CheckpointError, DeviceMemoryError
from serving.gpu.networks.precision import Precision
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture
from serving.gpu.networks.qwen3.network import (
    EMBEDDINGS,
    FINAL_NORM,
    LayerWeights,
    Qwen3,
    Qwen3Weights,
    layer_name,
)
from serving.gpu.networks.stored_tensors import StoredTensors

PREFIX = "model."
"""The prefix of tensor names in a checkpoint that was saved as a language model."""

HEAD = "lm_head.weight"


@torch.inference_mode()
def load_qwen3(
    tensors: StoredTensors,
    architecture: Qwen3Architecture,
    window: int,
    device: torch.device,
    precision: Precision,
) -> Qwen3:
    """Loads a checkpoint onto a device, one tensor at a time.

    Raises:
        CheckpointError: A tensor is missing, unknown or of another shape.
        DeviceMemoryError: The weights do not fit the device.
    """
    prefix = _prefix(tensors)
    _require_matching_tensors(tensors, architecture, prefix)
    reader = _Reader(tensors, architecture, prefix, device, getattr(torch, precision))
    try:
        return Qwen3(architecture, reader.weights(), window)
    except torch.OutOfMemoryError as error:
        raise DeviceMemoryError(f"the weights do not fit the memory of {device}") from error


def head_rows(tensors: StoredTensors, numbers: Sequence[int], *, tied: bool) -> Tensor:
    """Some rows of a language model's head: float32 (len(numbers), hidden), on the host.

    A tied head shares the embedding matrix. Raises CheckpointError if there is none.
    """
    name = _prefix(tensors) + EMBEDDINGS if tied else HEAD
    if name not in tensors.names:
        raise CheckpointError(f"the checkpoint lacks tensor {name!r}")
    return tensors.rows(name, numbers)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Tensors of a checkpoint on a device, in the precision of the arithmetic."""

    tensors: StoredTensors
    architecture: Qwen3Architecture
    prefix: str
    device: torch.device
    dtype: torch.dtype

    def weights(self) -> Qwen3Weights:
        return Qwen3Weights(
            embeddings=self._read(EMBEDDINGS), layers=self, final_norm=self._read(FINAL_NORM)
        )

    def __iter__(self) -> Iterator[LayerWeights]:
        for number in range(self.architecture.layers):
            layer = LayerWeights.empty(self.architecture, self.device, self.dtype)
            for name, place in layer.parts(self.architecture):
                place.copy_(self.tensors.read(f"{self.prefix}{layer_name(number)}{name}"))
            yield layer

    def _read(self, name: str) -> Tensor:
        return self.tensors.read(self.prefix + name).to(self.device, self.dtype)


def _prefix(tensors: StoredTensors) -> str:
    return PREFIX if PREFIX + EMBEDDINGS in tensors.names else ""


def _require_matching_tensors(
    tensors: StoredTensors, architecture: Qwen3Architecture, prefix: str
) -> None:
    """Compares names and shapes before reading, so a wrong file is rejected at once."""
    shapes = Qwen3Weights.empty(architecture, torch.device("meta"), torch.float32)
    expected = {prefix + name: tuple(place.shape) for name, place in shapes.parts(architecture)}
    for name, shape in expected.items():
        if name not in tensors.names:
            raise CheckpointError(f"the checkpoint lacks tensor {name!r}")
        if tensors.shape(name) != shape:
            raise CheckpointError(
                f"tensor {name!r} is of shape {tensors.shape(name)}, expected {shape}"
            )
    for name in sorted(tensors.names):
        if name not in expected and name != HEAD:
            raise CheckpointError(f"the checkpoint has tensor {name!r}, which is unknown to Qwen3")
