"""The results of a GPU as baselines and tables. The figures here are made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.gpu.report import main
from bench.gpu.tables import KINDS, NOT_MEASURED, gpu_table
from bench.harness.results import Json, append_record, read_records

DEVICE: dict[str, Json] = {
    "name": "Some GPU",
    "architecture": "sm_90",
    "driver": "580.1",
    "cuda": "13.2",
    "libraries": {"torch": "2.15.0", "cuvs-cu13": "26.10.0", "faiss-cpu": "1.15"},
}
LATENCY: dict[str, Json] = {"p50_ms": 1.5, "p95_ms": 2.0, "p99_ms": 3.0}


def record(scenario: str, **parts: Json) -> dict[str, Json]:
    about: dict[str, Json] = {"at": "2026-03-01 12:00 UTC", "commit": "abc123", "device": DEVICE}
    return {"scenario": scenario, "parameters": {}, "measured": {}, "n": 1, **about, **parts}


NETWORK = record(
    "Qwen3-Embedding-0.6B",
    parameters={
        "rows": 32,
        "tokens": 38,
        "ragged": False,
        "way": "here",
        "precision": "bfloat16",
    },
    latency=LATENCY,
    throughput_per_s=9000,
    measured={"floor_ms": 1.0, "times_the_floor": 1.5, "goal": "<= 1.6 x floor"},
)
EXAMPLES = {
    "networks": NETWORK,
    "index": record(
        "index", parameters={"way": "lists", "rows": 1000, "batch": 1}, latency=LATENCY
    ),
    "retrieve": record(
        "retrieve in process",
        parameters={"loop": "open", "rate_per_s": 100},
        latency=LATENCY,
        throughput_per_s=99,
        errors={"TimeoutError": 2},
    ),
    "batching": record("queries alone", latency=LATENCY, throughput_per_s=2000),
    "fill": record(
        "index from PostgreSQL to serving", parameters={"rows": 1000}, measured={"seconds": 4}
    ),
}


def write(folder: Path, *records: dict[str, Json]) -> None:
    folder.mkdir(parents=True)
    for each in records:
        append_record(folder, each)


def run(tmp_path: Path, *arguments: str) -> Result:
    places = ["--baselines", str(tmp_path / "baselines"), "--results", str(tmp_path / "results")]
    return CliRunner().invoke(main, [*arguments, *places])


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_says_where_it_was_measured(kind: str) -> None:
    told = gpu_table(kind, [EXAMPLES[kind]])

    first, _, head, *_ = told.splitlines()
    assert first == (
        "Some GPU, driver 580.1, CUDA 13.2, torch 2.15.0, cuvs-cu13 26.10.0, "
        "commit abc123, 2026-03-01:"
    )
    lines = told.splitlines()[2:]
    assert {line.count("|") for line in lines} == {head.count("|")}
    assert len(lines) == 3


def test_a_network_is_shown_beside_its_floor() -> None:
    assert gpu_table("networks", [NETWORK]).splitlines()[-1] == (
        "| Qwen3-Embedding-0.6B, bfloat16 | 32 x 38 | here | 1.5 / 3 | 9000 | 1 | 1.5 "
        "| <= 1.6 x floor |"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_without_results_a_table_says_so(kind: str) -> None:
    assert gpu_table(kind, []) == NOT_MEASURED


def test_a_network_that_did_not_fit_is_in_the_table() -> None:
    failed = record("Qwen3-Embedding-8B", measured={"failed": "out of memory"})

    lines = gpu_table("networks", [NETWORK, failed]).splitlines()

    assert "| Qwen3-Embedding-8B | out of memory |" in lines[-1]
    assert lines[-1].count("|") == lines[-2].count("|")


def test_whatever_was_measured_is_stored_and_the_rest_stays(tmp_path: Path) -> None:
    baselines = tmp_path / "baselines" / "gpu"
    write(baselines / "fill", EXAMPLES["fill"])
    write(tmp_path / "results" / "gpu-20260301-120000" / "networks-small", NETWORK)
    newest = tmp_path / "results" / "gpu-20260302-120000"
    write(newest / "networks-small", NETWORK)
    write(newest / "networks-large", NETWORK)
    write(newest / "batching" / "batching-0.6B-20260302", EXAMPLES["batching"])

    done = run(tmp_path)

    assert done.exit_code == 0, done.output
    assert [len(read_records(baselines / kind)) for kind in ("networks", "batching", "fill")] == [
        2,
        1,
        1,
    ]
    assert "retrieve: not measured in this run" in done.output


@pytest.mark.parametrize(
    ("device", "why"),
    [
        ({"name": "cpu", "architecture": ""}, "a result of cpu is no result of a GPU"),
        ({**DEVICE, "name": "Another"}, "results of several devices"),
        (None, "a result of no device is no result of a GPU"),
    ],
)
def test_what_was_not_measured_on_one_gpu_is_not_stored(
    tmp_path: Path, device: Json, why: str
) -> None:
    folder = tmp_path / "results" / "gpu-20260301-120000"
    write(folder / "networks-small", NETWORK, {**NETWORK, "device": device})

    done = run(tmp_path)

    assert done.exit_code == 1
    assert why in done.output
    assert not (tmp_path / "baselines").exists()


def test_a_dry_run_is_not_taken_for_a_result(tmp_path: Path) -> None:
    write(tmp_path / "results" / "dry-gpu-20260301-120000" / "networks-small", NETWORK)

    done = run(tmp_path)

    assert done.exit_code == 1
    assert "`make bench-gpu` measures them" in done.output
