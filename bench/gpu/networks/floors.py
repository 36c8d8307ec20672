"""The least time that a pass can take on a device: what it must read, and what it must multiply.

Both speeds are measured on the device, in the same run as the passes that are held against them:
data sheets give speeds that are never reached in practice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from serving.gpu.networks.precision import Precision
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture

ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Work:
    """What a pass cannot do without: bytes of weights to read, and operations of its products.

    A multiplication and the addition after it are two operations.
    """

    weight_bytes: float
    operations: float


@dataclass(frozen=True, slots=True)
class Speed:
    """What a device does a second."""

    bytes_per_s: float
    operations_per_s: float

    def floor_s(self, work: Work) -> float:
        """The seconds that a pass takes at least: the longer of reading and multiplying."""
        return max(work.weight_bytes / self.bytes_per_s, work.operations / self.operations_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What of a network every token goes through; embeddings are looked up and cost next to none.

    `parameters` are those of its matrices, `mixed` the width of queries in a layer. A token of a
    `causal` one looks at half of its row, on average.
    """

    parameters: int
    layers: int
    mixed: int
    causal: bool

    def work(self, lengths: Sequence[int], bytes_each: int) -> Work:
        """That of a pass over rows of these lengths, padding left out.

        Args:
            lengths: The tokens of each row.
            bytes_each: Of a weight.
        """
        pairs = sum(length**2 for length in lengths) * (0.5 if self.causal else 1.0)
        # Each pair of tokens is compared, and its value taken: two products of `mixed` numbers.
        attention = 4 * self.layers * self.mixed * pairs
        products = 2 * self.parameters * sum(lengths)
        return Work(self.parameters * bytes_each, products + attention)


def qwen3_body(its: Qwen3Architecture) -> Body:
    """That of a Qwen3."""
    mixed = its.heads * its.head_dimension
    key_value = 2 * its.key_value_heads * its.head_dimension
    attention = its.hidden * (2 * mixed + key_value)
    parameters = its.layers * (attention + 3 * its.hidden * its.feed_forward)
    return Body(parameters=parameters, layers=its.layers, mixed=mixed, causal=True)


def bert_body(layers: int, hidden: int, feed_forward: int) -> Body:
    """That of a BERT or an XLM-R."""
    parameters = layers * (4 * hidden**2 + 2 * hidden * feed_forward)
    return Body(parameters=parameters, layers=layers, mixed=hidden, causal=False)


@torch.inference_mode()
def measure_speed(device: torch.device, precision: Precision, side: int) -> Speed:
    """Measures a device: the best of some rounds, since whatever disturbs makes it slower.

    Args:
        device: The device.
        precision: Of the product.
        side: Of the two square matrices to multiply, and of the one to read.
    """
    dtype = getattr(torch, precision)
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in "lr")
    product = torch.empty_like(left)
    source = torch.ones(side * side, device=device)
    copy = torch.empty_like(source)

    multiplying_s = best_s(device, lambda: torch.mm(left, right, out=product))
    copying_s = best_s(device, lambda: copy.copy_(source))
    # A copy reads as much as it writes.
    return Speed(2 * source.nbytes / copying_s, 2 * side**3 / multiplying_s)


def best_s(device: torch.device, run: Callable[[], object]) -> float:
    """The shortest time of some rounds, after one that does not count."""
    times = []
    for _ in range(ROUNDS + 1):
        wait_for(device)
        started = time.perf_counter()
        run()
        wait_for(device)
        times.append(time.perf_counter() - started)
    return min(times[1:])


def wait_for(device: torch.device) -> None:
    """Returns when the device has done what it was given; a CPU always has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
