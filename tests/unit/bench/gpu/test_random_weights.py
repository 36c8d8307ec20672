"""Random models of the published sizes."""

from __future__ import annotations

import pytest
import torch

from bench.gpu.networks.random_weights import PUBLISHED, parameters, random_qwen3, random_weights
from serving.models.qwen3.architecture import Qwen3Architecture

CPU = torch.device("cpu")

TINY = Qwen3Architecture(
    vocabulary=50,
    hidden=32,
    feed_forward=64,
    layers=2,
    heads=4,
    key_value_heads=2,
    head_dimension=16,
    epsilon=1e-6,
    rope_theta=1e6,
)


@pytest.mark.parametrize(
    ("size", "with_head"), [("0.6B", 595_776_512), ("4B", 4_021_774_336), ("8B", 8_188_515_328)]
)
def test_each_size_has_as_many_parameters_as_was_published(size: str, with_head: int) -> None:
    architecture = PUBLISHED[size]
    # The smaller two have the embeddings for a head.
    head = architecture.vocabulary * architecture.hidden if size == "8B" else 0

    assert parameters(architecture) + head == with_head


def test_a_pass_is_finite_and_tells_texts_apart() -> None:
    network = random_qwen3(TINY, CPU, "bfloat16", window=8)
    rows = network(torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([3, 2]))

    assert rows.shape == (2, 32)
    assert rows.isfinite().all()
    assert not torch.allclose(rows[0], rows[1], atol=0.1)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    first, again, other = (
        dict(random_weights(TINY, CPU, "float32", seed).parts(TINY))["layers.1.mlp.up_proj.weight"]
        for seed in (1, 1, 2)
    )

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_norms_leave_their_input_as_it_is() -> None:
    weights = random_weights(TINY, CPU, "float32")

    assert weights.final_norm.eq(1).all()
    assert dict(weights.parts(TINY))["layers.0.self_attn.q_norm.weight"].eq(1).all()
