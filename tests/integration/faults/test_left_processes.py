"""What Ray leaves behind when its raylet is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from serving.desk import leftovers
from serving.desk.leftovers import clear_dead_desks, end_all, left_by_ray, new_temp_dir
from serving.desk.ray_environment import RAY_FOLDER, TEMP_DIR_PREFIX
from tests.support.processes import is_alive, python_child
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
def titled(tmp_path: Path) -> Iterator[psutil.Process]:
    """A process of Ray, whose title has overwritten its environment, and whose parent has ended."""
    log = tmp_path / "session" / "agent.out"
    log.parent.mkdir()
    command = f"env -i bash -c 'exec -a ray::Agent sleep 600' > {log} & echo $!"
    pid = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, check=True).stdout
    process = psutil.Process(int(pid))
    until(lambda: process.cmdline()[:1] == ["ray::Agent"])
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


def test_leftover_process_without_environment_is_found(
    titled: psutil.Process, tmp_path: Path
) -> None:
    assert left_by_ray(tmp_path) == [titled]
    assert left_by_ray(tmp_path / "another") == []


def test_leftover_process_is_killed(
    orphan: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "GONE_TIMEOUT_S", 0)

    end_all([orphan])

    until(lambda: not is_alive(orphan), timeout_s=20)


HELD = """
import sys
from pathlib import Path
from serving.desk.leftovers import in_use
with in_use(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """The process of a desk, whose folder is `tmp_path/trv-desk`."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"{TEMP_DIR_PREFIX}desk"
    folder.mkdir()
    with python_child(HELD, folder) as (process, printed):
        assert printed == "held\n"
        yield process


def test_folder_of_a_killed_desk_is_cleared(desk: subprocess.Popen[str], tmp_path: Path) -> None:
    folder = tmp_path / f"{TEMP_DIR_PREFIX}desk"
    environment = {"TMPDIR": str(folder / RAY_FOLDER)}
    with subprocess.Popen(["sleep", "600"], env=environment) as left:
        # The process of another desk would not be a child of this one.
        found = [psutil.Process(left.pid)]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(psutil.Process, "children", lambda _: [])
            said: list[str] = []
            clear_dead_desks(said.append)
            assert (said, folder.exists(), left.poll()) == ([], True, None)

            desk.kill()
            desk.wait()
            clear_dead_desks(said.append)

        assert [str(folder) in line for line in said] == [True]
        assert not folder.exists()
        assert not any(map(is_alive, found))


def test_next_start_clears_a_folder_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rmtree = shutil.rmtree

    def remove(folder: Path, **_: bool) -> None:
        """As if a process wrote again whenever all has been removed."""
        rmtree(folder)
        folder.mkdir()

    with monkeypatch.context() as written, new_temp_dir() as folder:
        written.setattr(shutil, "rmtree", remove)
    assert folder.exists()

    clear_dead_desks(lambda _: None)

    assert [*tmp_path.iterdir()] == []
