"""The mixed load, offered to a batcher whose encoder costs nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from bench.gpu.batching import Load, as_table, main, measure
from serving.pipeline.inference.embedder import BatchedEmbedder
from tests.fakes.meaning import FakeEncoder, PoisonedEncoder

LOAD = Load(queries_per_s=500, callers=2, call_texts=4, chunk_tokens=4, seconds=0.06)


async def test_documents_alone_questions_alone_and_both_are_measured() -> None:
    async with BatchedEmbedder(FakeEncoder(is_accelerator=True)) as embedder:
        bulk, questions, both = [each async for each in measure(embedder, LOAD)]

    assert bulk.scenario == "bulk alone"
    assert bulk.throughput_per_s is not None
    for result in (questions, both):
        assert result.n == 30
        assert result.latency is not None
        assert not result.errors
    assert {*both.measured} == {"loop_lag_p99_ms", "bulk_per_s", "bulk_share"}
    assert len(as_table([bulk, questions, both]).splitlines()) == 5


async def test_questions_that_fail_are_counted_and_not_timed() -> None:
    class Broken(PoisonedEncoder):
        def tokenize_query(self, text: str) -> list[int]:
            raise RuntimeError("no tokens")

    async with BatchedEmbedder(Broken()) as embedder:
        _, questions, _ = [each async for each in measure(embedder, LOAD)]

    assert (questions.n, questions.latency) == (0, None)
    assert questions.errors == {"RuntimeError": 30}


def test_each_result_says_how_busy_the_machine_was_and_how_long_a_thread_kept_others_waiting(
    tmp_path: Path,
) -> None:
    options = ["--seconds", "0.05", "--queries-per-s", "200", "--out", str(tmp_path)]
    before = sys.getswitchinterval()
    try:
        done = CliRunner().invoke(main, [*options, "--switch-ms", "1"])
    finally:
        sys.setswitchinterval(before)

    assert done.exit_code == 0, done.output
    [file] = tmp_path.glob("batching-simulated-*/results.jsonl")
    parameters = [json.loads(line)["parameters"] for line in file.read_text().splitlines()]
    assert [each["switch_ms"] for each in parameters] == [1, 1, 1]
    assert all(each["load_average"] >= 0 for each in parameters)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_a_qwen3_is_not_offered_anything() -> None:
    done = CliRunner().invoke(main, ["--encoder", "0.6B"])

    assert done.exit_code == 1
    assert "there is no CUDA device" in done.output
