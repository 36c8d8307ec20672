"""A published cross-encoder in ONNX Runtime on the CPU: ms-marco-MiniLM-L-12-v2 in int8.

The graph is in a package, and is known by its hash. The package is not imported. Its makers publish
no scores, so each start compares the logits of the model card's example with the card's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from serving.adapters.onnx_session import open_session
from serving.adapters.reranker.pair_tokenizer import PairTokenizer
from serving.adapters.reranker.published import PACKAGE
from serving.domain.errors import DependencyError
from serving.ports.embedding import Device
from serving.ports.reranking import Pair

GRAPH_SHA256 = "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"
TOKENIZER_SHA256 = "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448"

WINDOW = 512
"""Tokens of question and text together, special ones included."""

TOKEN_BUDGET = 512
"""Of a call; pairs run one by one in any case."""

EXAMPLE = (
    "How many people live in Berlin?",
    (
        "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 square "
        "kilometers.",
        "Berlin is well known for its museums.",
    ),
    (9.218911, -4.0780287),
)
"""Question, texts and logits in float32, from the model card of ms-marco-MiniLM-L12-v2."""

MAX_DEVIATION = 0.25
"""From the card's logits, which are in float32; 0.054 was measured."""


class OnnxCrossEncoder:
    """A `CrossEncoder` over ONNX Runtime, of a folder with `model.onnx` and `tokenizer.json`.

    Pairs run one by one: the scale of int8 activations is that of a whole pass, so in a batch the
    score of a pair would depend on the others.

    Raises:
        DependencyError: The files are missing or changed, or the logits differ from the card's.
    """

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        graph = _checked(folder / "model.onnx", GRAPH_SHA256)
        _checked(folder / "tokenizer.json", TOKENIZER_SHA256)
        self._tokenize = PairTokenizer(folder, WINDOW)
        self._session = open_session(graph, threads)
        question, texts, expected = EXAMPLE
        _require_close(self.score(self.tokenize(question, texts)), expected)

    def device(self) -> Device:
        return Device(is_accelerator=False, token_budget=TOKEN_BUDGET)

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        return self._tokenize(query, texts)

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        return [self._logit(pair) for pair in pairs]

    def _logit(self, pair: Pair) -> float:
        inputs = {
            "input_ids": np.array([pair.ids], np.int64),
            "attention_mask": np.ones((1, len(pair)), np.int64),
            "token_type_ids": np.array([pair.types], np.int64),
        }
        ((logit,),) = self._session.run(["logits"], inputs)[0].tolist()
        return float(logit)


def _checked(file: Path, sha256: str) -> Path:
    try:
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        why = f"{file.name} cannot be read ({type(error).__name__}): install {PACKAGE} anew"
        raise DependencyError("reranker", why) from error
    if digest != sha256:
        raise DependencyError("reranker", f"{file.name} was changed: install {PACKAGE} anew")
    return file


def _require_close(made: Sequence[float], expected: Sequence[float]) -> None:
    deviation = max(abs(one - other) for one, other in zip(made, expected, strict=True))
    if not deviation <= MAX_DEVIATION:
        why = f"the logits differ by {deviation:.2f} from those of the model card"
        raise DependencyError("reranker", why)
