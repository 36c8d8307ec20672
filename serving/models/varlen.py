"""Attention over rows of unlike length that lie one after the other, where torch has it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from serving.models.errors import AttentionError

ARGUMENTS = {"window_size", "enable_gqa"}
"""What the function takes since torch 2.11; the one of 2.10 says otherwise that it is causal."""


def require_varlen(device: torch.device, dtype: torch.dtype) -> None:
    """Refuses to join rows where they cannot be; a CPU attends row by row, in any numbers.

    Raises:
        AttentionError: Torch lacks the kernel, or has none for these numbers.
    """
    if device.type == "cpu":
        return
    if device.type != "cuda":
        raise AttentionError(f"attention varlen is for CUDA and the CPU, not for {device}")
    if dtype == torch.float32:
        raise AttentionError("attention varlen computes in no float32")
    if _function() is None:
        raise AttentionError(f"attention varlen is not in torch {torch.__version__}")


def varlen_attention(
    query: Tensor, key: Tensor, value: Tensor, starts: Tensor, longest: int
) -> Tensor:
    """Lets each token look at itself and those before it in its row, on CUDA.

    Args:
        query: bfloat16 or float16 (tokens, heads, dimension).
        key: The same, with as many heads or a divisor of that.
        value: As `key`.
        starts: int32 (rows + 1,): where each row begins, and where the last one ends.
        longest: The tokens of the longest row.

    Returns:
        As `query`.
    """
    function = _function()
    assert function is not None, "rows were joined without the kernel for it: this is a bug"
    attended: Tensor = function(
        query,
        key,
        value,
        starts,
        starts,
        longest,
        longest,
        # Any number of tokens before, none after.
        window_size=(-1, 0),
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return attended


def _function() -> Callable[..., Any] | None:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn if inspect.signature(varlen_attn).parameters.keys() >= ARGUMENTS else None
