"""The kinds of floating-point numbers that a network is computed in, as torch names them."""

from __future__ import annotations

from typing import Literal

Precision = Literal["float32", "bfloat16", "float16"]
