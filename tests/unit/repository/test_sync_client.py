"""The blocking client is generated from the asyncio one."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLIENTS = Path(__file__).parents[3] / "clients/python"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the generator, of its source and of what it generated."""
    shutil.copy(CLIENTS.parents[1] / "pyproject.toml", tmp_path)
    folder = tmp_path / "clients/python"
    (folder / "trivium").mkdir(parents=True)
    for name in ("async_to_sync.py", "trivium/aio.py", "trivium/client.py"):
        shutil.copy(CLIENTS / name, folder / name)
    return folder


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the generator of a folder."""
    return subprocess.run(
        [sys.executable, folder / "async_to_sync.py", *options],
        cwd=folder.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_blocking_client_is_current() -> None:
    assert run(CLIENTS, "--check").returncode == 0


def test_a_change_of_the_asyncio_client_alone_is_detected(copied: Path) -> None:
    source = copied / "trivium/aio.py"
    source.write_text(source.read_text().replace("page_size: int = 0", "page_size: int = 10"))

    checked = run(copied, "--check")

    assert checked.returncode == 1
    assert "run make sync-client" in checked.stderr
    assert run(copied).returncode == 0
    assert "page_size: int = 10" in (copied / "trivium/client.py").read_text()
    assert run(copied, "--check").returncode == 0


def test_a_rule_that_matches_nothing_is_an_error() -> None:
    spec = importlib.util.spec_from_file_location("async_to_sync", CLIENTS / "async_to_sync.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)

    with pytest.raises(ValueError, match="nothing in aio"):
        generator.to_sync("# no client")
