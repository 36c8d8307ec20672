"""The cases: networks of published sizes, and their batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from bench.gpu.networks.contenders import (
    PUBLISHED_BERTS,
    BertShape,
    Network,
    bert_reranker,
    qwen3_embedder,
    qwen3_reranker,
)
from bench.gpu.networks.random_weights import PUBLISHED, TINY_QWEN3
from serving.gpu.networks.precision import Precision
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture

QUESTION = 38
"""Tokens of a question of 16 with the instruction before it."""

CHUNK, CHUNKS = 128, 64
PAIR, SHORT_PAIR, PAIRS = 256, 64, 50
"""Tokens of what is embedded in bulk, and of a question with a text; and how many at once."""

WINDOW = 512
"""The most tokens of a row: shapes are prepared up to it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of so many tokens each.

    `ragged` ones have from a quarter of them to all: what is wasted on padding shows there.
    """

    rows: int
    tokens: int
    ragged: bool = False

    @property
    def lengths(self) -> list[int]:
        """The tokens of each row, in no order; the same at every call."""
        if not self.ragged:
            return [self.tokens] * self.rows
        draw = random.Random(self.rows)
        return [draw.randint(max(1, self.tokens // 4), self.tokens) for _ in range(self.rows)]


@dataclass(frozen=True, slots=True)
class Case:
    """A network and its batches; it is made when it is measured, and gone after that."""

    name: str
    make: Callable[[torch.device, Precision], Network]
    vocabulary: int
    batches: Sequence[Batch]
    is_large: bool = False


def _embedder(name: str, its: Qwen3Architecture, *batches: Batch) -> Case:
    def make(device: torch.device, precision: Precision) -> Network:
        return qwen3_embedder(its, device, precision, WINDOW)

    is_large = its.hidden > PUBLISHED["0.6B"].hidden
    return Case(name, make, its.vocabulary, batches, is_large=is_large)


def _qwen3_reranker(name: str, its: Qwen3Architecture, *batches: Batch) -> Case:
    def make(device: torch.device, precision: Precision) -> Network:
        return qwen3_reranker(its, device, precision, WINDOW)

    return Case(name, make, its.vocabulary, batches)


def _bert_reranker(name: str, its: BertShape, *batches: Batch) -> Case:
    def make(device: torch.device, precision: Precision) -> Network:
        return bert_reranker(its, device, precision)

    return Case(name, make, its.vocabulary, batches)


CASES = (
    _embedder(
        "Qwen3-Embedding-0.6B",
        PUBLISHED["0.6B"],
        Batch(1, QUESTION),
        Batch(8, QUESTION),
        Batch(32, QUESTION),
        Batch(64, QUESTION),
        Batch(CHUNKS, CHUNK),
        Batch(CHUNKS, CHUNK, ragged=True),
    ),
    _embedder(
        "Qwen3-Embedding-4B",
        PUBLISHED["4B"],
        Batch(1, QUESTION),
        Batch(8, QUESTION),
        Batch(32, QUESTION),
        Batch(64, QUESTION),
    ),
    _embedder(
        "Qwen3-Embedding-8B",
        PUBLISHED["8B"],
        Batch(1, QUESTION),
        Batch(8, QUESTION),
        Batch(32, QUESTION),
        Batch(64, QUESTION),
    ),
    _bert_reranker(
        "ms-marco-MiniLM-L6-v2",
        PUBLISHED_BERTS["ms-marco-MiniLM-L6-v2"],
        Batch(PAIRS, PAIR),
        Batch(PAIRS, SHORT_PAIR),
    ),
    _bert_reranker(
        "bge-reranker-v2-m3",
        PUBLISHED_BERTS["bge-reranker-v2-m3"],
        Batch(PAIRS, PAIR),
        Batch(PAIRS, SHORT_PAIR),
    ),
    _qwen3_reranker(
        "Qwen3-Reranker-0.6B",
        PUBLISHED["0.6B"],
        Batch(PAIRS, PAIR),
        Batch(PAIRS, SHORT_PAIR),
        Batch(PAIRS, PAIR, ragged=True),
    ),
)

_TINY_BERT = BertShape(
    layers=2, hidden=64, feed_forward=128, heads=4, vocabulary=300, positions=WINDOW + 2
)
_FEW = (Batch(1, QUESTION), Batch(4, QUESTION), Batch(4, QUESTION, ragged=True))

TINY_CASES = (
    _embedder("tiny Qwen3 embedder", TINY_QWEN3, *_FEW),
    _bert_reranker("tiny BERT reranker", _TINY_BERT, *_FEW),
    _bert_reranker("tiny XLM-R reranker", replace(_TINY_BERT, is_roberta=True), *_FEW),
    _qwen3_reranker("tiny Qwen3 reranker", TINY_QWEN3, *_FEW),
)
"""The same ways through networks of no size, which prove the script on a CPU."""

BY_NAME: Mapping[str, Case] = {case.name: case for case in CASES}
