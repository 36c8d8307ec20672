"""Whether what the head of each Serve config for GPUs says fits the smallest device."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.gpu.networks.random_weights import PUBLISHED, parameters
from serving.composition.gpu_share import left_by_lists
from serving.config.settings import load_settings

DEPLOY = Path(__file__).parents[3] / "deploy"

ON_GPU = ["serve.gpu-big.yaml", "serve.gpus.yaml", "serve.blackwell.yaml"]

SMALLEST_GIB = {"serve.gpu-big.yaml": 48, "serve.gpus.yaml": 48, "serve.blackwell.yaml": 95}
"""The memory of the smallest device that the head of each file names."""

MILLIONS = {"serve.gpu-big.yaml": 1.25, "serve.gpus.yaml": 3.1, "serve.blackwell.yaml": 2.85}
"""The rows that fit, as the head of each file says."""

GIB = 2**30
PASS_GIB = 1.3
"""Of a forward pass and the recorded graphs (docs/gpu.md)."""

PADDING = 1.2
"""Lists are allocated in powers of two, or in multiples of 32 rows: at most so much more."""


def arguments_of(name: str) -> dict[str, Any]:
    [application] = yaml.safe_load((DEPLOY / name).read_text())["applications"]
    return {**application["args"], "auth": {"allow_anonymous": True}}


def shared_by(name: str) -> tuple[float, float]:
    """The GiB of the smallest device that cuVS and torch may take in `VectorSpace`."""
    settings = load_settings(arguments_of(name))
    share, gib = settings.serve.gpus.embedder, SMALLEST_GIB[name]
    lists = share * settings.index.lists_share
    # A whole GPU is not capped, but lists take their part of it.
    torch = min(left_by_lists(share, settings.index), share - lists)
    return lists * gib, torch * gib


@pytest.mark.parametrize("name", ON_GPU)
def test_rows_in_head_of_config_fit_smallest_device(name: str) -> None:
    settings = load_settings(arguments_of(name))
    assert (settings.index.device, settings.index.kind) == ("cuda", "auto")
    size = settings.embedder.model.rpartition("-")[2]
    row_gib = MILLIONS[name] * 1e6 * 2 * (settings.embedder.dimension or 0) / GIB
    weights_gib = 2 * parameters(PUBLISHED[size]) / GIB

    lists_gib, torch_gib = shared_by(name)

    assert 2 * PADDING * row_gib <= lists_gib, "the lists, and those of a rebuild"
    assert weights_gib + PASS_GIB + row_gib <= torch_gib, "the weights, a pass and the vectors"


@pytest.mark.parametrize("name", ON_GPU)
def test_the_head_of_a_config_names_the_weights_of_its_model(name: str) -> None:
    head = (DEPLOY / name).read_text().partition("proxy_location")[0]
    size = load_settings(arguments_of(name)).embedder.model.rpartition("-")[2]
    weights_gib = 2 * parameters(PUBLISHED[size]) / GIB

    assert re.search(rf"weights of the {size} +{weights_gib:.1f}\b", head)
    assert f"{SMALLEST_GIB[name]}" in head
