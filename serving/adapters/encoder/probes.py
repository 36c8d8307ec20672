"""Probe texts, and checks of the vectors that a runtime or a quantized graph makes of them.

An index holds the vectors of one fingerprint, whatever computed them. A runtime or a precision
that shares the fingerprint of torch is therefore used only if its vectors agree. A quantized graph
has a fingerprint of its own; it is used only if it finds nearly the same neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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

REMARKS = (
    'Mara: "We moved to Lisbon in May, and the flat has a view of the river."',
    'Ivo: "My choir sings in the cathedral on the third Sunday of Advent."',
    'Mara: "The landlord wants the deposit before the end of the week."',
    'Tessa: "I passed the driving test at the second attempt!"',
    'Ivo: "Our boat needs a new sail before the regatta in Goa."',
    'Tessa: "My brother keeps bees behind the old mill."',
    'Noor: "I start at the museum on Monday, in the department of maps."',
    'Mara: "Noor and I learn Portuguese with an app every evening."',
    'Ivo: "The vet says that the cat must lose a kilo."',
    'Noor: "I gave a talk about medieval sea charts at the university."',
    'Tessa: "I cannot come to the barbecue, because I work the night shift."',
    'Ivo: "I fell off the ladder while I was picking cherries."',
    'Mara: "My father sold his bakery after forty years."',
    'Noor: "We watched the eclipse from the roof of the library."',
    'Tessa: "I am training for the half marathon in Valencia."',
    'Ivo: "My niece plays the cello in the youth orchestra."',
    'Noor: "I left my umbrella in the tram again."',
    'Mara: "The new office has no windows, so I work from home."',
    "The meeting was moved from Tuesday to Thursday because the room was taken.",
    "The rent went up by a hundred dollars in March.",
    "Our flight to Lisbon leaves at six in the morning.",
    "The train to Porto was two hours late because of a strike.",
    "Grandma gave me her recipe for apple pie.",
    "I burnt the bread again, the oven is far too hot.",
    "My sister is getting married in a vineyard next June.",
    "Their daughter was born on the ninth of October.",
    "He broke his wrist while skating and needs a cast for six weeks.",
    "She is allergic to peanuts and to cats.",
    "The dentist found a cavity in my left molar.",
    "We painted the kitchen yellow and the bedroom dark green.",
    "The washing machine leaks, the plumber comes on Wednesday.",
    "I sold my old bicycle to a neighbour for eighty euros.",
    "My phone fell into the sea during the boat trip.",
    "They planted tomatoes and basil on the balcony.",
    "The concert in the park was cancelled because of the storm.",
    "We saw a documentary about whales and cried at the end.",
)
"""Short texts as people speak, for the neighbours of each among the others."""

QUESTIONS = (
    "Where does Mara live now?",
    "When does Ivo's choir perform?",
    "Who passed an exam?",
    "Which animals does Tessa's brother keep?",
    "What is Noor's new job?",
    "What did Mara's father do for a living?",
    "Which race does Tessa prepare for?",
    "How did Ivo hurt himself?",
    "When is the meeting now?",
    "Why was the concert cancelled?",
    "Which allergies does she have?",
    "What happened to the phone?",
)
"""Questions about some of them."""

MIN_COSINE = 0.9999
"""Below this, vectors of two runtimes must not share an index."""


MIN_INT8_COSINE, MIN_INT8_OVERLAP = 0.98, 0.9
"""Of an int8 graph's vectors to those of float32, and of the neighbours that they find.

At a cosine of 0.98, random errors cost no recall@10 on LoCoMo, and at 0.97 to 0.95 a hundredth.
The recipe in use keeps 0.99 and 0.93; the default one of ONNX Runtime, which costs two
hundredths, keeps 0.97 and 0.87 (docs/encoder.md).
"""

NEIGHBOURS = 10
"""Of each text, whose overlap counts."""


def probe_windows(tokenizer: WindowTokenizer) -> list[TokenIds]:
    """The first window of each probe text."""
    return [tokenizer.document(text)[0] for text in PROBE_TEXTS]


def require_same(made: Vectors, expected: Vectors, what: str, remedy: str) -> None:
    """Compares the probe vectors of a runtime with those of torch: float32 (probes, dimension).

    Args:
        made: Of the runtime; unit length.
        expected: Of torch; unit length.
        what: The runtime, for the message.
        remedy: What the operator can do, for the message.

    Raises:
        DependencyError: The shapes or the vectors differ; NaN differs from everything.
    """
    if made.shape != expected.shape:
        raise DependencyError("embedder", f"{what} is of another model; {remedy}")
    least = float((made * expected).sum(axis=1).min())
    if not least >= MIN_COSINE:
        why = f"{what} differs from its checkpoint (cosine {least:.4f}); {remedy}"
        raise DependencyError("embedder", why)


def quantization_windows(tokenizer: WindowTokenizer) -> list[TokenIds]:
    """The first window of each remark, then each question with its prompt."""
    remarks = [tokenizer.document(text)[0] for text in REMARKS]
    return remarks + [tokenizer.query(text) for text in QUESTIONS]


def require_close(made: Vectors, expected: Vectors) -> None:
    """Compares the vectors of `quantization_windows` with those of float32.

    Args:
        made: Of the quantized graph: float32 (n, dimension), of unit length.
        expected: Of the float32 graph, in the same order.

    Raises:
        DependencyError: They differ too much to find the same texts; NaN differs from everything.
    """
    remedy = "remove it, or set embedder.precision to float32"
    if made.shape != expected.shape:
        raise DependencyError("embedder", f"the int8 graph is of another model; {remedy}")
    cosine = float((made * expected).sum(axis=1).min())
    overlap = neighbour_overlap(made, expected)
    if not (cosine >= MIN_INT8_COSINE and overlap >= MIN_INT8_OVERLAP):
        why = (
            f"the int8 graph differs from float32 (least cosine {cosine:.3f}, at least "
            f"{MIN_INT8_COSINE}; overlap of neighbours {overlap:.2f}, at least "
            f"{MIN_INT8_OVERLAP}); {remedy}"
        )
        raise DependencyError("embedder", why)


def neighbour_overlap(made: Vectors, expected: Vectors) -> float:
    """The share of the nearest remarks of each text that both sets of vectors have in common."""
    first, second = _nearest_remarks(made), _nearest_remarks(expected)
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    return float(np.mean([len({*one} & {*other}) for one, other in pairs])) / NEIGHBOURS


def _nearest_remarks(vectors: Vectors) -> NDArray[np.intp]:
    """The remarks nearest to each text, itself excluded: (n, NEIGHBOURS)."""
    scores = vectors @ vectors[: len(REMARKS)].T
    np.fill_diagonal(scores, -np.inf)
    return np.argsort(-scores, axis=1, kind="stable")[:, :NEIGHBOURS]
