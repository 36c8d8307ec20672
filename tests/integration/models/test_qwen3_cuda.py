"""Qwen3 on a CUDA device, at the published width; needs no checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from bench.gpu.networks.random_weights import PUBLISHED, random_weights
from serving.gpu.networks.batches import Network, Rows, Window, packed
from serving.gpu.networks.buckets import Bucket, BucketPlan
from serving.gpu.networks.cuda_graphs import CudaGraphs
from serving.gpu.networks.passes import BucketedPasses
from serving.gpu.networks.qwen3.network import Qwen3, Qwen3Weights

WINDOW = 256
SIZE = PUBLISHED["0.6B"]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def random_windows(lengths: Sequence[int]) -> list[Window]:
    draws = np.random.default_rng(5)
    return [draws.integers(0, SIZE.vocabulary, length).tolist() for length in lengths]


RAGGED = random_windows([38, 1, 256, 40, 129, 7])
EQUALLY_LONG = random_windows([38] * 32)


@pytest.fixture(scope="module")
def device() -> torch.device:
    return torch.device("cuda")


@pytest.fixture(scope="module")
def weights(device: torch.device) -> Qwen3Weights:
    return random_weights(SIZE, device, "bfloat16")


@pytest.fixture(scope="module")
def graphs(weights: Qwen3Weights, device: torch.device) -> CudaGraphs:
    plan = BucketPlan(token_budget=2048, window=WINDOW)
    network = Network(Qwen3(SIZE, weights, WINDOW), device)
    return CudaGraphs(network, SIZE.hidden, plan.buckets)


@pytest.fixture(scope="module")
def library(weights: Qwen3Weights, device: torch.device) -> Any:
    from transformers import Qwen3Config, Qwen3Model

    config = Qwen3Config(
        vocab_size=SIZE.vocabulary,
        hidden_size=SIZE.hidden,
        intermediate_size=SIZE.feed_forward,
        num_hidden_layers=SIZE.layers,
        num_attention_heads=SIZE.heads,
        num_key_value_heads=SIZE.key_value_heads,
        head_dim=SIZE.head_dimension,
        rope_parameters={"rope_type": "default", "rope_theta": SIZE.rope_theta},
    )
    model: Any = Qwen3Model(config).bfloat16()
    model.load_state_dict(dict(weights.parts(SIZE)))
    return model.to(device).eval()


def cosines(made: Rows, wanted: Rows) -> Rows:
    return torch.cosine_similarity(made.float(), wanted.float(), dim=1)


@pytest.mark.parametrize("windows", [RAGGED, EQUALLY_LONG], ids=["ragged", "equally long"])
def test_in_bfloat16_rows_are_those_of_transformers(
    graphs: CudaGraphs, library: Any, device: torch.device, windows: list[Window]
) -> None:
    made = graphs.run(windows)

    with torch.inference_mode():
        alone = [torch.tensor([window], device=device) for window in windows]
        states = [library(ids).last_hidden_state[0, -1] for ids in alone]
    wanted = torch.stack(states)
    assert cosines(made, wanted).min() >= 0.999


@pytest.mark.parametrize("windows", [RAGGED, EQUALLY_LONG], ids=["ragged", "equally long"])
def test_replay_equals_the_batch_kernel_by_kernel(
    graphs: CudaGraphs, windows: list[Window]
) -> None:
    (rows, length) = (len(windows), max(map(len, windows)))
    bucket = BucketPlan(token_budget=2048, window=WINDOW).choose(rows, length)
    assert bucket is not None
    batch = packed(windows, bucket)
    graphs.run_recorded(bucket, batch)

    replayed = graphs.run_recorded(bucket, batch)
    graphs.run_recorded(bucket, packed(random_windows([length]), bucket))

    alone = graphs.run(windows)
    torch.testing.assert_close(replayed[: len(windows)], alone, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(graphs.run_recorded(bucket, batch), replayed, rtol=0, atol=0)


def test_captures_share_memory_without_disturbing_others(graphs: CudaGraphs) -> None:
    passes = BucketedPasses(graphs, BucketPlan(token_budget=512, window=WINDOW), 4096)
    windows = random_windows([38, 20, 3])
    alone = passes.run(windows)

    for rows in (1, 7, 12):
        passes.run(random_windows([40] * rows))

    torch.testing.assert_close(passes.run(windows), alone, rtol=0, atol=0)
    assert Bucket(4, 40) in BucketPlan(token_budget=512, window=WINDOW).of_questions
