"""The element-wise steps of a layer. On a GPU each is compiled into one kernel.

Outside the products and attention, a layer of PyTorch's own operations runs a dozen kernels that
each read and write the whole stream. `torch.compile` makes three of them. Only the number of tokens
is left open to the compiled code, so one compilation serves all batches; the widths are constants,
without which norms and rotation took twice as long on an H200.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

logger = logging.getLogger(__name__)


def normed(stream: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """RMS norm of each token: (tokens, width), with a weight (width,)."""
    return functional.rms_norm(stream, weight.shape, weight, epsilon)


def rotated(heads: Tensor, norms: Tensor, cosines: Tensor, sines: Tensor, epsilon: float) -> Tensor:
    """Norms each head, then rotates it by the angles of its position (RoPE).

    Args:
        heads: (tokens, heads, dimension).
        norms: The weight of each head's norm: (heads, dimension).
        cosines: Of the angles of each token's position: (tokens, dimension).
        sines: The same, negative in the first half.
        epsilon: Of the norms.
    """
    values = functional.rms_norm(heads.float(), norms.shape[-1:], None, epsilon) * norms
    first, second = values.chunk(2, dim=-1)
    swapped = torch.cat([second, first], dim=-1)
    return (values * cosines[:, None] + swapped * sines[:, None]).to(heads.dtype)


def gated(products: Tensor) -> Tensor:
    """SwiGLU: (tokens, 2 * width), of gate and up, to (tokens, width)."""
    gate, up = products.chunk(2, dim=-1)
    return functional.silu(gate) * up


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps above, as they are or compiled."""

    normed: Callable[[Tensor, Tensor, float], Tensor] = normed
    rotated: Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor] = rotated
    gated: Callable[[Tensor], Tensor] = gated


def steps_on(device: torch.device) -> Steps:
    """Returns the steps for a device: compiled on CUDA, unless there is no compiler."""
    if device.type != "cuda":
        return Steps()
    compiled = compiled_steps()
    try:
        try_out(compiled, device)
    except Exception as error:
        # Without Triton or a C compiler, any part of torch's compiler may fail.
        logger.warning(
            "the network runs uncompiled, at half its speed: install a C compiler and Triton",
            extra={"error": f"{type(error).__name__}: {error}".splitlines()[0]},
        )
        return Steps()
    return compiled


def compiled_steps(backend: str | Callable[..., Any] = "inductor") -> Steps:
    """Returns the steps compiled, by one of torch's compilers, for each width by itself."""
    # Not dynamic: else the widths of a second network in a process would be left open too.
    compiled = partial(torch.compile, fullgraph=True, dynamic=False, backend=backend)
    return Steps(*(compiled(step) for step in (normed, rotated, gated)))


def try_out(steps: Steps, device: torch.device) -> None:
    """Runs each step once, on tokens of no size."""
    stream = with_open_tokens(torch.ones((8, 16), device=device))
    heads = with_open_tokens(torch.ones((8, 2, 16), device=device))
    _ = steps.normed(stream, torch.ones(16, device=device), 1e-6)
    _ = steps.rotated(heads, torch.ones((2, 16), device=device), stream, stream, 1e-6)
    _ = steps.gated(stream)


def with_open_tokens(stream: Tensor) -> Tensor:
    """Marks the first dimension as one of any size, so that compiled code serves all sizes."""
    torch._dynamo.maybe_mark_dynamic(stream, 0)
    return stream
