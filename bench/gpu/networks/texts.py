"""Texts of a wanted number of tokens, for encoders whose weights are drawn anyway."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

WORDS = ("we", "sailed", "to", "goa", "with", "the", "family", "and", "then", "went", "home")
"""Each is one token."""

SPECIAL_TOKENS = 2
"""At the two ends of a window."""

MOST_TEXTS = 4096
"""The number of texts; they are repeated if more are needed."""


@cache
def random_texts(tokens: int, seed: int) -> Sequence[str]:
    """`MOST_TEXTS` texts of so many tokens, hardly two alike."""
    draw = random.Random(seed)
    words = max(1, tokens - SPECIAL_TOKENS)
    return [" ".join(draw.choices(WORDS, k=words)) for _ in range(MOST_TEXTS)]
