"""Qwen3 of the published sizes with random weights, made on the device.

How long a pass takes does not depend on what the weights are, so no checkpoint of 15 GB is
needed to measure one; a bench that is about quality needs the real thing.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from serving.gpu.networks.precision import Precision
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture
from serving.gpu.networks.qwen3.network import Qwen3Weights

SPREAD = 0.02
"""The standard deviation of each matrix, as the published models were begun with."""


def _published(
    vocabulary: int, hidden: int, feed_forward: int, layers: int, heads: int
) -> Qwen3Architecture:
    return Qwen3Architecture(
        vocabulary=vocabulary,
        hidden=hidden,
        feed_forward=feed_forward,
        layers=layers,
        heads=heads,
        key_value_heads=8,
        head_dimension=128,
        epsilon=1e-6,
        rope_theta=1e6,
    )


PUBLISHED: Mapping[str, Qwen3Architecture] = {
    "0.6B": _published(151_669, hidden=1024, feed_forward=3072, layers=28, heads=16),
    "4B": _published(151_665, hidden=2560, feed_forward=9728, layers=36, heads=32),
    "8B": _published(151_665, hidden=4096, feed_forward=12_288, layers=36, heads=32),
}
"""Qwen3-Embedding by size, from the `config.json` of each; Qwen3-Reranker has the same bodies."""

TINY_QWEN3 = Qwen3Architecture(
    vocabulary=30_522,
    hidden=64,
    feed_forward=128,
    layers=2,
    heads=4,
    key_value_heads=2,
    head_dimension=32,
    epsilon=1e-6,
    rope_theta=1e6,
)
"""One of no size, to prove a script on a CPU."""


@torch.inference_mode()
def random_weights(
    architecture: Qwen3Architecture, device: torch.device, precision: Precision, seed: int = 0
) -> Qwen3Weights:
    """Weights that keep a pass finite: norms of 1, matrices drawn around 0."""
    weights = Qwen3Weights.empty(architecture, device, getattr(torch, precision))
    generator = torch.Generator(device=device).manual_seed(seed)
    for _, place in weights.parts(architecture):
        if place.ndim == 1:
            place.fill_(1)
        else:
            place.normal_(std=SPREAD, generator=generator)
    return weights
