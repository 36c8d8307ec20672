"""The least time that a pass can take on a device: what it must read, and what it must multiply.

Both speeds are measured on the device, in the same run as the passes that are held against them:
data sheets give speeds that are never reached in practice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from bench.harness.results import Json
from bench.reports import environment
from serving.gpu.networks.precision import Precision
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture

ROUNDS = 10
SIDE = {"cuda": 8192, "cpu": 512}
"""Of the matrices that a device's speed is measured with."""


class Body(NamedTuple):
    """The part of a network for every token; embeddings are looked up and cost next to none.

    `parameters` are those of its matrices, `mixed` the width of queries in a layer. A token of a
    `causal` one looks at half of its row, on average.
    """

    parameters: int
    layers: int
    mixed: int
    causal: bool


def qwen3_body(its: Qwen3Architecture) -> Body:
    """The body of a Qwen3."""
    mixed = its.heads * its.head_dimension
    key_value = 2 * its.key_value_heads * its.head_dimension
    attention = its.hidden * (2 * mixed + key_value)
    parameters = its.layers * (attention + 3 * its.hidden * its.feed_forward)
    return Body(parameters, its.layers, mixed, causal=True)


def bert_body(layers: int, hidden: int, feed_forward: int) -> Body:
    """The body of a BERT or an XLM-R."""
    parameters = layers * (4 * hidden**2 + 2 * hidden * feed_forward)
    return Body(parameters, layers, hidden, causal=False)


class Speed(NamedTuple):
    """The work of a device in a second."""

    bytes_per_s: float
    operations_per_s: float

    def floor_s(self, body: Body, lengths: Sequence[int], bytes_each: int) -> float:
        """The seconds that a pass takes at least: the longer of reading and multiplying.

        `lengths` are the tokens of each row without padding, `bytes_each` those of a weight.
        """
        pairs = sum(length**2 for length in lengths) * (0.5 if body.causal else 1.0)
        # Each pair of tokens is compared, and its value taken: two products of `mixed` numbers.
        attention = 4 * body.layers * body.mixed * pairs
        # A multiplication and the addition after it are two operations.
        products = 2 * body.parameters * sum(lengths)
        reading_s = body.parameters * bytes_each / self.bytes_per_s
        return max(reading_s, (products + attention) / self.operations_per_s)


def about_device(device: torch.device, speed: Speed) -> dict[str, Json]:
    """The device with its measured speed, as each result names it."""
    speeds: dict[str, Json] = {name: round(value) for name, value in speed._asdict().items()}
    return {"device": environment.about_device(str(device)) | speeds}


@torch.inference_mode()
def speed_of(device: torch.device, precision: Precision) -> Speed:
    """Measures a device: the best of some rounds, since whatever disturbs makes it slower."""
    side = SIDE[device.type]
    left, right = (
        torch.randn(side, side, device=device).to(getattr(torch, precision)) for _ in "lr"
    )
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
