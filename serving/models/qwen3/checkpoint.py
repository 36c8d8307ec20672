"""Loads a Qwen3 from a checkpoint, and compares a quantized one with the stored weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.models.batches import Network, Window
from serving.models.errors import CheckpointError, DeviceMemoryError
from serving.models.matrices import DTYPES, matrices_in
from serving.models.precision import QUANTIZED, Precision
from serving.models.qwen3.architecture import Qwen3Architecture
from serving.models.qwen3.network import (
    EMBEDDINGS,
    FINAL_NORM,
    LayerWeights,
    Qwen3,
    Qwen3Weights,
    layer_name,
)
from serving.models.stored_tensors import StoredTensors

PREFIX = "model."
"""The prefix of tensor names in a checkpoint that was saved as a language model."""

HEAD = "lm_head.weight"

LEAST_COSINE = 0.995
"""Between a row of a quantized network and that in bfloat16. Below this, their nearest neighbours
differ."""


@dataclass(frozen=True, slots=True)
class Probes:
    """Inputs on which a quantized network is compared.

    Args:
        windows: Typical inputs.
        width: The leading components of a row that are used, and so compared.
    """

    windows: Sequence[Window]
    width: int


@torch.inference_mode()
def load_qwen3(
    tensors: StoredTensors,
    architecture: Qwen3Architecture,
    window: int,
    device: torch.device,
    precision: Precision,
    probes: Probes,
) -> Qwen3:
    """Loads a checkpoint onto a device, one tensor at a time.

    When quantizing, at most one layer is in memory as stored at any time, even while the quantized
    network is compared with the stored one.

    Args:
        tensors: The checkpoint; may be closed afterwards.
        architecture: Of the checkpoint.
        window: The most tokens of a row.
        device: Where to compute.
        precision: Of the weights.
        probes: Inputs for the comparison of a quantized network.

    Raises:
        CheckpointError: A tensor is missing, unknown or of another shape, or the rows of the
            quantized network are not close to the stored one's.
        DeviceMemoryError: The weights do not fit the device.
    """
    prefix = _prefix(tensors)
    _require_matching_tensors(tensors, architecture, prefix)
    reader = _Reader(tensors, architecture, prefix, device, DTYPES[precision])
    try:
        weights = reader.weights()
        network = Qwen3(architecture, weights, window, matrices_in(precision))
        if precision in QUANTIZED:
            stored = Qwen3(architecture, weights, window, keeps_layers=False)
            _require_close(network, stored, probes, precision)
    except torch.OutOfMemoryError as error:
        raise DeviceMemoryError(f"the weights do not fit the memory of {device}") from error
    return network


def head_rows(tensors: StoredTensors, numbers: Sequence[int], *, tied: bool) -> Tensor:
    """Some rows of a language model's head: float32 (len(numbers), hidden), on the host.

    Args:
        tensors: The checkpoint.
        numbers: The tokens of the rows.
        tied: Whether the head shares the embedding matrix.

    Raises:
        CheckpointError: There is no head.
    """
    name = _prefix(tensors) + EMBEDDINGS if tied else HEAD
    if name not in tensors.names:
        raise CheckpointError(f"the checkpoint lacks tensor {name!r}")
    return tensors.rows(name, numbers)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Tensors of a checkpoint on a device, in the precision of the arithmetic.

    Each iteration reads the layers again, so only those that the caller keeps stay in memory.
    """

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
    """The prefix of the checkpoint's tensor names."""
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


def _require_close(network: Qwen3, stored: Qwen3, probes: Probes, precision: Precision) -> None:
    # In one pass each, since every pass of `stored` reads its layers from the files.
    made, wanted = (
        Network(each, each.device).rows(probes.windows)[:, : probes.width].cpu().numpy()
        for each in (network, stored)
    )
    least = float(_cosines(made, wanted).min())
    if not least >= LEAST_COSINE:  # also true for NaN
        raise CheckpointError(
            f"in {precision} its rows are not those of bfloat16 (cosine {least:.4f}, at least "
            f"{LEAST_COSINE} is needed): choose another precision"
        )


def _cosines(made: NDArray[np.float32], wanted: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        lengths = np.linalg.norm(made, axis=1) * np.linalg.norm(wanted, axis=1)
        cosines: NDArray[np.float32] = (made * wanted).sum(axis=1) / lengths
    return cosines
