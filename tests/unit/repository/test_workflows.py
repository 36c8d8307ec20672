"""The workflows and hooks run what `make` runs, with pinned actions and few rights."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from tests.support.tracked_files import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ZIZMOR = ROOT / ".venv-audit/bin/zizmor"
PINNED = re.compile(r"^[\w/-]+@[0-9a-f]{40}$")


def read(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return loaded


def recipe(target: str) -> list[str]:
    """The commands of a target of the Makefile, as typed in a shell."""
    text = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin")
    [found] = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", text, re.M)
    return [line.strip().removeprefix("@") for line in found.splitlines()]


def test_hooks_run_what_make_lint_runs() -> None:
    [local] = read(".pre-commit-config.yaml")["repos"]

    entries = [hook["entry"] for hook in local["hooks"] if hook.get("stages") is None]

    assert sorted(entries) == sorted(recipe("lint"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_workflow_pins_actions_and_asks_for_rights(file: Any) -> None:
    workflow = yaml.safe_load(file.read_text())

    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all(PINNED.match(step["uses"]) for step in steps if "uses" in step)
    assert workflow["permissions"] == {}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


@pytest.mark.release
@pytest.mark.skipif(not ZIZMOR.exists(), reason="`make test-all` installs it")
def test_zizmor_finds_nothing_in_the_workflows() -> None:
    done = subprocess.run(
        [ZIZMOR, "--offline", "--pedantic", ".github"], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_tests_run_under_every_supported_python() -> None:
    matrix = read(".github/workflows/tests.yml")["jobs"]["test"]["strategy"]["matrix"]

    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert matrix["python"] == classifiers
