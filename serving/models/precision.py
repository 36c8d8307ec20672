"""What can be chosen of how a network is computed; imports no torch."""

from __future__ import annotations

from typing import Literal

Precision = Literal["float32", "bfloat16", "float16", "int8", "float8"]
"""The numbers of weights and arithmetic, as torch names them; but for those in `QUANTIZED`."""

QUANTIZED: frozenset[Precision] = frozenset({"int8", "float8"})
"""Of the weights alone, with a scale for each output; the arithmetic is bfloat16."""

Attention = Literal["padded", "varlen"]
"""Over rows padded to one length, or over rows of their own lengths, one after the other."""
