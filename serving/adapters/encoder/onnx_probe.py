"""What an export and its use compare their vectors on: the same texts, in the same passes."""

from __future__ import annotations

from serving.adapters.encoder.windows import WindowTokenizer
from serving.ports import TokenIds

PADDED_TOKENS = 256
"""Of a pass: 32 texts of 7 to 36 tokens take 157 ms with it and 219 in a single pass."""

PROBE_TEXTS = (
    "",
    "a",
    "When did we sail to Goa?",
    "Caroline: I went to the adoption agency on 7 May 2023, and it was wonderful!",
    "12 345 678.90 EUR -- #4711 (net), due 2026-03-01T12:00Z; see https://example.org/a?b=c",
    "Über den Wolken muß die Freiheit wohl grenzenlos sein",
    "昨日、私たちは海へ行きました。",
    "😀🚀",
    "def cosine(a, b):\n    return a @ b / (norm(a) * norm(b))",
    "memory " * 60,
    "The meeting was moved from Tuesday to Thursday because the room was taken. " * 40,
)
"""From empty to beyond most windows, in several scripts."""


def probe_windows(tokenizer: WindowTokenizer) -> list[TokenIds]:
    """The first window of each probe text."""
    return [tokenizer.document(text)[0] for text in PROBE_TEXTS]
