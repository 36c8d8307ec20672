"""The README is short, and its figures are those of the baselines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.support.tracked_files import ROOT

README = (ROOT / "README.md").read_text()
MAX_BYTES = 7_000
ROW = re.compile(r"^\| ([\w +]+) \| ([\d.]+) \| ([\d.]+) \| (.+) \|$", re.M)


def records(baseline: str, **parameters: object) -> Iterator[Any]:
    lines = (ROOT / "bench/baselines" / baseline / "results.jsonl").read_text().splitlines()
    for record in map(json.loads, lines):
        if parameters.items() <= record["parameters"].items():
            yield record


def recall_of(system: str) -> float:
    record = next(each for each in records("peers", system=system) if "callers" not in str(each))
    return float(record["measured"]["recall@10"]["mean"])


def test_readme_is_short() -> None:
    assert len(README.encode()) <= MAX_BYTES


def test_benchmark_table_equals_the_baseline() -> None:
    rows = [(row[1], row[2], row[3], row[4]) for row in ROW.finditer(README)]

    assert len(rows) == 5
    for system, recall, p50_ms, lacks in rows:
        runs = list(records("peers", system=system, callers=1))
        mean_p50_ms = sum(each["latency"]["p50_ms"] for each in runs) / len(runs)
        assert recall == f"{recall_of(system):.3f}"
        assert p50_ms == f"{mean_p50_ms:.3g}"
        assert {lacks} == {each["measured"]["lacks"] for each in runs}


def test_figures_of_the_head_equal_the_baselines() -> None:
    head = README.partition("## Quickstart")[0]
    (hung,) = records("speed/faults", dependency="neo4j", fault="hung")
    others = ["bm25s + NumPy", "Qdrant Edge", "LanceDB", "Graphiti"]

    assert f"Recall@10 is {recall_of('Trivium'):.2f}" in head
    assert f"the next has {max(map(recall_of, others)):.2f}" in head
    assert f"all {hung['n']} questions were answered within their" in head
    assert hung["measured"]["outcomes"]["without some leg"] == hung["n"]
    assert f"within their {hung['parameters']['budget_ms']} ms" in head
