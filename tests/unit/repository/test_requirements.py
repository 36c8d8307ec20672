"""The pins in `requirements/` are of the requirements in `pyproject.toml`."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.support.tracked_files import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED = re.findall(
    r"\$\(LOCK\)((?: --extra \w+)*)[^\n]*(?:\\\n[^\n]*)?\.\./pyproject\.toml -o (\w+)\.txt",
    (ROOT / "Makefile").read_text(),
)
"""The extras of each file, by `make lock`."""

PIN = re.compile(r"^([\w.-]+)(?:\[[^\]]*\])?==[^\n]*((?:\n +[^\n]*)*)", re.M)


def named(requirements: list[str]) -> set[str]:
    return {re.sub(r"[-_.]+", "-", Requirement(each).name).lower() for each in requirements}


@pytest.mark.parametrize(("extras", "file"), LOCKED, ids=[file for _, file in LOCKED])
def test_pins_of_the_project_are_its_requirements(extras: str, file: str) -> None:
    asked = named(PROJECT["dependencies"]) - {"trivium-client"}
    for extra in re.findall(r"--extra (\w+)", extras):
        asked |= named(PROJECT["optional-dependencies"][extra])

    pins = PIN.findall((ROOT / f"requirements/{file}.txt").read_text())

    assert {name for name, why in pins if "trivium-server (../pyproject.toml)" in why} == asked


def test_files_of_the_image_are_locked() -> None:
    assert {"serving", "gpu", "multilingual", "dev"} <= {file for _, file in LOCKED}
