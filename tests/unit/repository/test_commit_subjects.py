"""The hook for commit messages accepts `area: imperative` and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.tracked_files import ROOT

HOOK = ROOT / ".githooks" / "commit-msg"


def checked(message: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Calls the hook as git does."""
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
