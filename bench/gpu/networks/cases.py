"""The cases: networks of published sizes, and their batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

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

WINDOW = 512
"""The most tokens of a row: shapes are prepared up to it."""


class Batch(NamedTuple):
    """Rows of these numbers of tokens each.

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


def _case(
    name: str, make: Callable[..., Network], its: Qwen3Architecture | BertShape, *batches: Batch
) -> Case:
    return Case(name, partial(make, its, window=WINDOW), its.vocabulary, batches)


QUESTIONS = tuple(Batch(rows, QUESTION) for rows in (1, 8, 32, 64))
PAIRS = (Batch(50, 256), Batch(50, 64))

CASES = (
    _case(
        "Qwen3-Embedding-0.6B",
        qwen3_embedder,
        PUBLISHED["0.6B"],
        *QUESTIONS,
        Batch(64, 128),
        Batch(64, 128, ragged=True),
    ),
    *(_case(name, bert_reranker, its, *PAIRS) for name, its in PUBLISHED_BERTS.items()),
    _case(
        "Qwen3-Reranker-0.6B",
        qwen3_reranker,
        PUBLISHED["0.6B"],
        *PAIRS,
        Batch(50, 256, ragged=True),
    ),
    _case("Qwen3-Embedding-4B", qwen3_embedder, PUBLISHED["4B"], *QUESTIONS),
    _case("Qwen3-Embedding-8B", qwen3_embedder, PUBLISHED["8B"], *QUESTIONS),
)

TINY_BERT = BertShape(
    layers=2, hidden=64, feed_forward=128, heads=4, vocabulary=300, positions=WINDOW + 2
)
_FEW = (Batch(1, QUESTION), Batch(4, QUESTION), Batch(4, QUESTION, ragged=True))

TINY_CASES = (
    _case("tiny Qwen3 embedder", qwen3_embedder, TINY_QWEN3, *_FEW),
    _case("tiny BERT reranker", bert_reranker, TINY_BERT, *_FEW),
    _case("tiny XLM-R reranker", bert_reranker, replace(TINY_BERT, is_roberta=True), *_FEW),
    _case("tiny Qwen3 reranker", qwen3_reranker, TINY_QWEN3, *_FEW),
)
"""The same ways through networks of no size, which prove the script on a CPU."""

BY_NAME: Mapping[str, Case] = {case.name: case for case in CASES}
