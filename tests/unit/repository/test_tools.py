"""The tools of this repository: make, the hook of commits, the generator of the blocking client."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tracked_files import ROOT

PROJECT = Path(__file__).parents[3]
AUDIT = PROJECT / ".venv-audit" / ".audit"


def test_the_list_shows_no_make_variable() -> None:
    listed = subprocess.check_output(["make", "--no-print-directory"], cwd=PROJECT, text=True)

    assert "clean" in listed
    assert "$(" not in listed


@pytest.mark.skipif(not AUDIT.exists(), reason="`make test-all` installs what writes it")
def test_bill_of_materials_names_every_pin(tmp_path: Path) -> None:
    file = tmp_path / "sbom.json"
    subprocess.run(
        ["make", "--no-print-directory", "sbom", f"SBOM={file}"], cwd=PROJECT, check=True
    )

    bill = json.loads(file.read_text())
    pins = (PROJECT / "requirements" / "serving.txt").read_text()
    named = {f"{each['name']}=={each['version']}" for each in bill["components"]}
    assert bill["metadata"]["component"]["name"] == "trivium-server"
    assert named == set(re.findall(r"^[\w.-]+==[^\s;]+", pins, re.M))


HOOK = ROOT / ".githooks" / "commit-msg"


def checked(message: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "COMMIT_EDITMSG"
    file.write_text(message)
    return subprocess.run([HOOK, file], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "subject",
    [
        "index: reject vectors of another model",
        "tests/e2e: embed once",
        f"docs: {'x' * 66}",
        "Merge branch 'index'",
        "fixup! Anything",
    ],
)
def test_valid_subject_is_accepted(subject: str, tmp_path: Path) -> None:
    done = checked(f"{subject}\n\nThe reasons, with a line: of any kind.\n", tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        (f"docs: {'x' * 67}", "has 73 characters"),
        ("reject vectors of another model", "an area and a verb"),
        ("Index: reject vectors", "an area and a verb"),
        ("index: Reject vectors", "an area and a verb"),
        ("wip", "an area and a verb"),
        ("index: rejected vectors", "must be imperative"),
        ("index: adding a test", "must be imperative"),
        ("index: reject vectors.", "must not end with a period"),
    ],
)
def test_invalid_subject_is_rejected(subject: str, reason: str, tmp_path: Path) -> None:
    done = checked(f"{subject}\n\nThe reasons.\n", tmp_path)

    assert done.returncode == 1
    assert reason in done.stderr
    assert subject in done.stderr


def test_comment_lines_are_no_subject(tmp_path: Path) -> None:
    assert checked("# On branch main\nindex: reject vectors\n", tmp_path).returncode == 0


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
    return subprocess.run(
        [sys.executable, folder / "async_to_sync.py", *options],
        cwd=folder.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )


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
