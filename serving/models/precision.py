"""Options of a network's arithmetic; imports no torch."""

from __future__ import annotations

from typing import Literal

Precision = Literal["float32", "bfloat16", "float16", "int8", "float8"]
"""The type of weights and arithmetic, as torch names it, except for those in `QUANTIZED`."""

QUANTIZED: frozenset[Precision] = frozenset({"int8", "float8"})
"""Types of the weights only, with one scale per output; the arithmetic is bfloat16."""

Attention = Literal["padded", "varlen"]
"""Over rows padded to equal length, or over concatenated rows of different lengths."""
