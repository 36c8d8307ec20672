"""The GPU benchmark, run on a CPU: all contenders give the same results."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner

from bench.gpu import index, retrieve
from bench.gpu.__main__ import main
from bench.gpu.networks.cases import CASES, TINY_CASES, Case
from bench.gpu.networks.contenders import random_windows

CPU = torch.device("cpu")


@pytest.mark.parametrize("case", TINY_CASES, ids=lambda case: case.name)
def test_every_way_to_run_a_network_gives_the_same_rows(case: Case) -> None:
    network = case.make(CPU, "float32")
    windows = random_windows([38, 3, 120, 1], case.vocabulary)

    rows = {way: run(windows) for way, run in network.ways.items()}

    here = rows.pop("here")
    assert len(here) == len(windows)
    assert rows.keys() == {"transformers", "sentence-transformers"}
    for made in rows.values():
        np.testing.assert_allclose(made.reshape(here.shape), here, atol=1e-5, rtol=1e-4)


def test_the_goals_of_the_issue_are_each_held_against_a_batch() -> None:
    batches = [(case, batch) for case in CASES for batch in case.batches if batch.goal]
    measured = {(case.name, batch.rows, batch.tokens) for case, batch in batches}

    assert measured == {
        ("Qwen3-Embedding-0.6B", 1, 38),
        ("Qwen3-Embedding-0.6B", 32, 38),
        ("Qwen3-Embedding-0.6B", 64, 128),
        ("Qwen3-Embedding-4B", 32, 38),
        ("Qwen3-Embedding-8B", 1, 38),
        ("Qwen3-Embedding-8B", 32, 38),
        ("ms-marco-MiniLM-L6-v2", 50, 256),
        ("bge-reranker-v2-m3", 50, 256),
        ("Qwen3-Reranker-0.6B", 50, 256),
    }


def test_every_network_is_measured_in_the_batches_of_the_issue() -> None:
    sizes = {case.name: {(each.rows, each.tokens) for each in case.batches} for case in CASES}

    for size in ("0.6B", "4B", "8B"):
        assert sizes[f"Qwen3-Embedding-{size}"] >= {(rows, 38) for rows in (1, 8, 32, 64)}
    rerankers = [name for name in sizes if "Embedding" not in name]
    assert len(rerankers) == 3
    assert all(sizes[name] >= {(50, 64), (50, 256)} for name in rerankers)


def test_on_a_cpu_the_whole_script_runs_and_each_result_names_its_device(tmp_path: Path) -> None:
    options = ["--device", "cpu", "--tiny", "--rounds", "1", "--out", str(tmp_path)]

    done = CliRunner().invoke(main, options)

    assert done.exit_code == 0, done.output
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    results = [json.loads(line) for line in lines]
    assert len(results) == sum(3 * len(case.batches) for case in TINY_CASES)
    assert {each["device"]["name"] for each in results} == {"cpu"}
    assert all(each["measured"]["floor_ms"] > 0 for each in results)


def test_on_a_cpu_the_index_is_measured_in_every_way_that_the_issue_asks_for(
    tmp_path: Path,
) -> None:
    options = ["--device", "cpu", "--tiny", "--out", str(tmp_path)]

    done = CliRunner().invoke(index.main, options, catch_exceptions=False)

    assert done.exit_code == 0, done.output
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    of = defaultdict[str, list[dict[str, Any]]](list)
    for each in results:
        of[each["scenario"]].append(each)
    small, large = index.TINY.rows
    searched = {
        (each["parameters"]["way"], each["parameters"]["rows"], each["parameters"]["batch"])
        for each in of["index"]
    }
    assert searched == set(product(["exact", "lists"], [small, large], [1, 32]))
    assert all(each["measured"]["floor_ms"] > 0 for each in of["index"])
    assert all(each["measured"]["recall"] > 0.9 for each in of["index"] + of["index as served"])
    assert [each["parameters"]["rows"] for each in of["index while it is rebuilt"]] == [large]
    assert len(of["index upsert visible"]) == len(of["index delete visible"]) == 2
    assert [each["parameters"]["callers"] for each in of["index side by side"]] == [16, 16]
    assert {each["parameters"]["of"] for each in of["index crossing"]} == {
        "as an index measures it",
        "batch 1",
        "batch 32",
    }
    assert {each["device"]["name"] for each in results} == {"cpu"}


def test_each_goal_of_a_search_is_held_against_what_is_measured() -> None:
    measured = set(product(["exact", "lists"], index.FULL.rows, index.BATCHES))

    assert index.GOALS_MS.keys() | index.GOALS_BY_FLOOR.keys() <= measured
    assert index.goal("lists", 100_000, 1, 0.1, 5.0) == "<= 0.17 ms: reached"
    assert index.goal("exact", 1_000_000, 1, 1.1, 1.7) == "<= 1.6 x floor: **missed**"
    assert index.goal("exact", 1_000_000, 32, 1.1, 1.7) == ""


@pytest.mark.model
def test_on_a_cpu_questions_are_embedded_and_searched_in_every_loop_and_at_rising_rates(
    tmp_path: Path,
) -> None:
    options = ["--device", "cpu", "--tiny", "--out", str(tmp_path)]

    done = CliRunner().invoke(retrieve.main, options, catch_exceptions=False)

    assert done.exit_code == 0, done.output
    assert done.output.startswith("embed + search in process, without gRPC")
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    *loops, passed = results
    first, one, some, many, *tried = (each["parameters"] for each in loops)
    assert (first["loop"], first["rate_per_s"]) == ("open", 100)
    assert [each["callers"] for each in (one, some, many)] == [1, 16, 64]
    assert tried[0]["rate_per_s"] == 100
    assert passed["measured"].keys() == {"kept_per_s", "missed_per_s"}
    assert all(each["latency"]["p50_ms"] > 0 for each in loops[:4])
    assert all(each["measured"]["index"]["n_lists"] for each in loops)
    assert all("p95 < 20 ms" in loops[each]["measured"]["goal"] for each in (0, 4))
    assert {each["device"]["name"] for each in results} == {"cpu"}
    assert {each["parameters"]["measured"] for each in results} == {"embed + search in process"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize(
    "command", [main, index.main, retrieve.main], ids=["models", "index", "retrieve"]
)
def test_without_a_gpu_it_says_so(command: click.Command) -> None:
    done = CliRunner().invoke(command, [])

    assert done.exit_code == 1
    assert "there is no CUDA device" in done.output
