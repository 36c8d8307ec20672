"""The kinds of numbers that a network's weights are kept in, as torch names them."""

from __future__ import annotations

from typing import Literal

Precision = Literal["float32", "bfloat16", "float16", "int8", "float8"]
"""Of weights and arithmetic, but for those in `QUANTIZED`."""

QUANTIZED: frozenset[Precision] = frozenset({"int8", "float8"})
"""Of the weights alone, with a scale for each output; the arithmetic is bfloat16."""
