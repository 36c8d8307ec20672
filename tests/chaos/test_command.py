"""The faults that are drawn, and the figures of a run."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path

import pytest

from bench.harness.results import number, read_records, select
from tests.chaos.checker import Finding, Kind
from tests.chaos.desk import Desk
from tests.chaos.faults import FAULTS, drawn
from tests.chaos.history import Group, Write
from tests.chaos.report import SCENARIO, table, write_results
from tests.chaos.run import Outcome

GROUP = Group("acme", "g1")


@pytest.mark.parametrize("placement", FAULTS)
def test_every_fault_happens_before_one_happens_again(placement: str) -> None:
    kinds = len(FAULTS[placement])

    faults = drawn(random.Random(1), placement, 2 * kinds + 1)

    assert len(faults) == 2 * kinds + 1
    assert set(faults[:kinds]) == set(faults[kinds:-1]) == set(FAULTS[placement])
    assert faults == drawn(random.Random(1), placement, 2 * kinds + 1)
    assert faults != drawn(random.Random(2), placement, 2 * kinds + 1)


def test_figures_of_a_run_are_printed_and_written(tmp_path: Path) -> None:
    outcome = Outcome(placement="split", seed=1, rounds=3, reads=5)
    outcome.writes = [
        Write(group=GROUP, version=1, started=0, ended=1),
        Write(group=GROUP, version=2, started=2, ended=3, attempts=2),
        Write(group=GROUP, version=None, started=4, attempts=2),
    ]
    outcome.findings = [Finding(Kind.HALF_WRITTEN, "postgres", GROUP.item("a"), "of two versions")]

    write_results(tmp_path / "run", outcome)

    [record] = select(read_records(tmp_path / "run"), SCENARIO)
    expected = {"operations": 8, "acknowledged": 2, "retried": 1, "given_up": 1, "answers": 5}
    expected |= {"half_written": 1, "lost": 0, "double": 0, "stale": 0, "resurrected": 0}
    assert {name: number(record, "measured", name) for name in expected} == expected
    log = (tmp_path / "run" / "split-operations.jsonl").read_text().splitlines()
    assert [json.loads(line)["ended"] for line in log] == [1, 3, None]
    assert "half-written: acme/g1.a in postgres, of two versions" in table(outcome)


def test_figures_of_a_second_placement_are_added(tmp_path: Path) -> None:
    for placement in FAULTS:
        write_results(tmp_path, Outcome(placement=placement, seed=1))

    records = select(read_records(tmp_path), SCENARIO)
    assert [record["parameters"] for record in records] == [
        {"placement": placement, "seed": 1} for placement in FAULTS
    ]


def test_files_of_a_desk_are_kept_without_its_sockets(tmp_path: Path) -> None:
    data_dir, temporary = tmp_path / "d", tmp_path / "t"
    for folder in (data_dir, temporary):
        folder.mkdir()
        (folder / "log").write_text(folder.name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(temporary / "socket"))

        Desk(data_dir, temporary, "single").keep(tmp_path / "kept")

    kept = {str(path.relative_to(tmp_path / "kept")) for path in tmp_path.glob("kept/*/*")}
    assert kept == {"data/log", "temporary/log"}
