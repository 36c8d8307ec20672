"""What is asked of embedder and index in one process, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from bench.gpu.retrieve import PASSED, RETRIEVE, CorpusFeed, CorpusQueryEncoder, keeps_goal, line
from bench.harness.latency import Latency
from bench.harness.results import Result
from bench.index.load import SCOPE
from serving.adapters.vector_index import ExactIndex
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemKind
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.ports.embedding import EmbeddingModel, TokenIds, Vectors
from serving.ports.vector_index import WantedNeighbours
from tests.fakes.meaning import FakeEncoder

AXES = np.eye(4, dtype=np.float32)


class CountingEncoder(FakeEncoder):
    def __init__(self) -> None:
        super().__init__()
        self.encoded: list[int] = []

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        self.encoded.append(len(windows))
        return super().encode(windows)


def answered_in(seconds: float, errors: dict[str, int] | None = None) -> Result:
    return Result(
        scenario=RETRIEVE,
        parameters={"loop": "open", "rate_per_s": 100.0},
        n=10,
        latency=Latency.of([seconds] * 10),
        errors=errors or {},
        measured={"embedding_p50_ms": 1.0, "loop_lag_p99_ms": 0.1, "goal": "p95"},
    )


def test_every_text_is_encoded_and_the_next_question_of_the_corpus_given_for_it() -> None:
    inner = CountingEncoder()
    encoder = CorpusQueryEncoder(inner, torch.from_numpy(AXES))

    given = [*encoder.encode_queries([[1]] * 3), *encoder.encode_queries([[2]] * 2)]

    assert inner.encoded == [3, 2]
    assert np.array_equal(np.stack([np.asarray(each) for each in given]), AXES[[0, 1, 2, 3, 0]])


async def test_an_index_that_follows_a_corpus_has_all_of_its_rows() -> None:
    feed, model = CorpusFeed(AXES.astype(np.float16)), EmbeddingModel("m", 4)
    async with LogFollowingIndex(feed, model, lambda: ExactIndex(4)) as index:
        assert await index.ready(Deadline.after(10))

        wanted = WantedNeighbours(ItemKind.SEGMENT, SCOPE, 4)
        answer = await index.search(AXES[2], wanted, Deadline.after(10))

    nearest, *others = (str(each.item.id) for each in answer.candidates)
    assert nearest == "2"
    assert sorted(others) == ["0", "1", "3"]


@pytest.mark.parametrize(
    ("result", "is_kept"),
    [
        (answered_in(0.0199), True),
        (answered_in(0.020), False),
        (answered_in(0.001, {"TimeoutError": 1}), False),
        (Result(scenario=RETRIEVE, n=5, errors={"OverloadedError": 5}), False),
    ],
    ids=["in time", "late", "one was not answered", "none was answered"],
)
def test_a_rate_is_kept_if_all_are_answered_and_nearly_all_in_time(
    result: Result, is_kept: bool
) -> None:
    assert keeps_goal(result) is is_kept


def test_a_line_tells_of_questions_that_were_not_answered() -> None:
    assert "TimeoutError: 3" in line(answered_in(0.01, {"TimeoutError": 3}))
    none = Result(scenario=PASSED, n=1, measured={"kept_per_s": 0.0, "missed_per_s": 100.0})
    assert line(none) == "rate at which p95 passes 20 ms: kept at 0.0/s, missed at 100.0/s"
