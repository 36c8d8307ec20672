"""The precision of a network's weights and arithmetic; imports no torch."""

from __future__ import annotations

from typing import Literal

Precision = Literal["float32", "bfloat16", "float16"]
"""As torch names them."""
