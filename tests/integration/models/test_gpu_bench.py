"""The GPU benchmark, run on a CPU: all contenders give the same results."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModelForSequenceClassification

from bench.gpu import end_to_end, index
from bench.gpu.__main__ import main
from bench.gpu.checkpoints import save_bert_reranker, save_qwen3_embedder
from bench.gpu.networks.cases import TINY_CASES, Case
from bench.gpu.networks.contenders import random_windows
from bench.harness.load import Call, Run
from bench.harness.results import read_records
from bench.harness.sample import multiplied_sample
from serving.adapters.encoder.checkpoint import open_checkpoint
from serving.gpu.encoders.qwen3_encoder import Qwen3Encoder
from trivium.values import LegState

CPU = torch.device("cpu")


@pytest.mark.parametrize("case", TINY_CASES, ids=lambda case: case.name)
def test_contenders_give_the_same_rows(case: Case) -> None:
    network = case.make(CPU, "float32")
    windows = random_windows([38, 3, 120, 1], case.vocabulary)

    rows = {way: run(windows) for way, run in network.runs.items()}

    assert rows.keys() == {"here", "transformers"}
    here = rows["here"]
    np.testing.assert_allclose(rows["transformers"].reshape(here.shape), here, atol=1e-5, rtol=1e-4)


def test_dry_run_measures_every_network(tmp_path: Path) -> None:
    options = ["--device", "cpu", "--tiny", "--rounds", "1", "--out", str(tmp_path)]

    done = CliRunner().invoke(main, options)

    assert done.exit_code == 0, done.output
    results = read_records(tmp_path)
    assert len(results) == sum(2 * len(case.batches) for case in TINY_CASES)


def test_random_checkpoints_are_read_as_published_ones(tmp_path: Path) -> None:
    texts = ["We sailed to Goa.", "Is the balcony painted?"]
    save_qwen3_embedder(tmp_path / "embedder", texts, tiny=True)
    save_bert_reranker(tmp_path / "reranker", texts, tiny=True)

    checkpoint = open_checkpoint(str(tmp_path / "embedder"))
    assert checkpoint.model.dimension == 64
    Qwen3Encoder(checkpoint)
    reranker = AutoModelForSequenceClassification.from_pretrained(tmp_path / "reranker")
    assert reranker.config.num_labels == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("command", [main, index.main, end_to_end.main])
def test_benchmark_without_gpu_names_the_device(command: click.Command) -> None:
    done = CliRunner().invoke(command, [])

    assert done.exit_code == 2
    assert "no CUDA device; DRY=1" in " ".join(done.output.split())


def test_no_question_of_a_load_is_repeated() -> None:
    queries = end_to_end.asked_of_all(multiplied_sample(2))

    asked = [query.text for _ in range(2) for query in islice(end_to_end.distinct(queries), 500)]

    assert len(set(asked)) == len(asked) > len(queries)


def test_legs_that_fail_at_first_are_named() -> None:
    states = {"dense": LegState.FAILED, "facts": LegState.TIMED_OUT, "graph": LegState.FAILED}
    reports = [SimpleNamespace(leg=leg, state=state) for leg, state in states.items()]
    answer: Any = SimpleNamespace(leg_reports=reports)

    assert end_to_end.failed_legs(Run([Call(0.01, answer)], 10.0)) == ["dense: failed"]


@pytest.mark.release
def test_dry_run_measures_the_service(tmp_path: Path) -> None:
    options = ["--device", "cpu", "--tiny", "--seconds", "0.2", "--out", str(tmp_path)]

    done = CliRunner().invoke(end_to_end.main, options)

    assert done.exit_code == 0, done.output
    [folder] = tmp_path.iterdir()
    loads = [each for each in read_records(folder) if each["scenario"] == "load"]
    assert len(loads) == 11
    assert all(each["throughput_per_s"] for each in loads)
