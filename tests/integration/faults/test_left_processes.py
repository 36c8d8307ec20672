"""What Ray leaves behind when its raylet is killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from serving.desk import ray_cluster
from serving.desk.ray_cluster import end_all, left_by_ray
from tests.support.processes import is_alive
from tests.support.waiting import until


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(tmp_path)}  # noqa: TID251 - a child process inherits it


@pytest.fixture
def orphan(environment: dict[str, str]) -> Iterator[psutil.Process]:
    """A process whose parent has ended, like a worker of a killed raylet."""
    command = ["sh", "-c", "sleep 600 > /dev/null & echo $!"]
    pid = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
    process = psutil.Process(int(pid))
    yield process
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


@pytest.fixture
def store(environment: dict[str, str]) -> Iterator[psutil.Process]:
    """A process that the desk itself has started."""
    with subprocess.Popen(["sleep", "600"], env=environment) as process:
        yield psutil.Process(process.pid)
        process.kill()


def test_leftover_processes_of_ray_exclude_stores(
    orphan: psutil.Process, store: psutil.Process, tmp_path: Path
) -> None:
    assert left_by_ray(tmp_path) == [orphan]
    assert left_by_ray(tmp_path / "another") == []


def test_leftover_process_is_killed(
    orphan: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "GONE_TIMEOUT_S", 0)

    end_all([orphan])

    until(lambda: not is_alive(orphan), timeout_s=20)
