"""Variable-length attention over concatenated rows, where torch supports it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from serving.models.errors import AttentionError

ARGUMENTS = {"window_size", "enable_gqa"}
"""Parameters of torch's function since 2.11; that of 2.10 has another causal flag."""


def require_varlen(device: torch.device, dtype: torch.dtype) -> None:
    """Checks that concatenated rows are supported; a CPU computes row by row, in any type.

    Raises:
        AttentionError: Torch has no kernel for this device or type.
    """
    if device.type == "cpu":
        return
    if device.type != "cuda":
        raise AttentionError(f"attention varlen is for CUDA and the CPU, not for {device}")
    if dtype == torch.float32:
        raise AttentionError("attention varlen supports no float32")
    if _function() is None:
        raise AttentionError(f"attention varlen is not in torch {torch.__version__}")


def varlen_attention(
    query: Tensor, key: Tensor, value: Tensor, starts: Tensor, longest: int
) -> Tensor:
    """Causal attention within each row, on CUDA.

    Args:
        query: bfloat16 or float16 (tokens, heads, dimension).
        key: The same; its number of heads divides that of `query`.
        value: As `key`.
        starts: int32 (rows + 1,): the offset of each row, and the end of the last.
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
        # All tokens before, none after.
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
