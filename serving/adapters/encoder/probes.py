"""Probe texts, and checks of the vectors that a runtime or a quantized graph makes of them.

An index holds the vectors of one fingerprint, whatever computed them. A runtime or a precision
that shares the fingerprint of torch is therefore used only if its vectors agree. A quantized graph
has a fingerprint of its own; it is used only if its vectors are near.
"""

from __future__ import annotations

from serving.adapters.encoder.windows import WindowTokenizer
from serving.domain.errors import DependencyError
from serving.ports.embedding import TokenIds, Vectors

PADDED_TOKENS = 256
"""Of an ONNX pass: 32 texts of 7 to 36 tokens take 157 ms with it and 219 in a single pass."""

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
"""From empty to longer than most windows, in several scripts."""

MIN_COSINE = 0.9999
"""Below this, vectors of two runtimes must not share an index."""


MIN_INT8_COSINE = 0.96
"""Of an int8 graph's vectors to those of float32. The recipe in use keeps 0.98 of the probe texts,
and the default one of ONNX Runtime, which costs two hundredths of recall, 0.95 at most."""


def probe_windows(tokenizer: WindowTokenizer) -> list[TokenIds]:
    """The first window of each probe text."""
    return [tokenizer.document(text)[0] for text in PROBE_TEXTS]


def require_close(made: Vectors, expected: Vectors, least: float, what: str, remedy: str) -> None:
    """Compares the vectors of the probe texts with others: float32 (probes, dimension).

    Args:
        made: Of a runtime or a quantized graph; unit length.
        expected: Of torch, or of the float32 graph; unit length.
        least: The least cosine.
        what: What made the vectors, for the message.
        remedy: What the operator can do, for the message.

    Raises:
        DependencyError: The shapes or the vectors differ; NaN differs from everything.
    """
    if made.shape != expected.shape:
        raise DependencyError("embedder", f"{what} is of another model; {remedy}")
    cosine = float((made * expected).sum(axis=1).min())
    if not cosine >= least:
        why = f"{what} differs from its checkpoint (cosine {cosine:.4f}); {remedy}"
        raise DependencyError("embedder", why)
