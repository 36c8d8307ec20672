"""What torch compiles anew: each width, and not each number of tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from serving.gpu.networks.qwen3.elementwise import (
    Steps,
    compiled_steps,
    gated,
    normed,
    rotated,
    try_out,
    with_open_tokens,
)

EPSILON = 1e-6


def of_width(steps: Steps, step: str, tokens: int, width: int) -> Tensor:
    stream = with_open_tokens(torch.ones((tokens, width)))
    if step == "normed":
        return steps.normed(stream, torch.ones(width), EPSILON)
    if step == "rotated":
        heads = with_open_tokens(torch.ones((tokens, 2, width)))
        return steps.rotated(heads, torch.ones((2, width)), stream, stream, EPSILON)
    return steps.gated(stream)


@pytest.fixture(autouse=True)
def _no_compiled_code() -> None:
    torch.compiler.reset()


@pytest.mark.parametrize("step", ["normed", "rotated", "gated"])
def test_compiled_code_has_fixed_widths(step: str) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def noting(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    steps, plain = compiled_steps(noting), Steps(normed, rotated, gated)
    for width in (16, 32, 64):
        for tokens in (8, 9, 70):
            found = of_width(steps, step, tokens, width)
            assert torch.equal(found, of_width(plain, step, tokens, width))

    assert len(graphs) == 3, "one for each width, of any number of tokens"


@pytest.mark.parametrize("step", ["normed", "rotated", "gated"])
def test_step_without_compiler_is_noticed_at_start(step: str) -> None:
    def failing(*_: object) -> Tensor:
        raise FileNotFoundError("cc")

    with pytest.raises(FileNotFoundError):
        try_out(replace(Steps(), **{step: failing}), torch.device("cpu"))
