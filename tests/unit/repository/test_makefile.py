"""`make` without a target lists the targets."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
AUDIT = PROJECT / ".venv-audit" / ".audit"


def test_the_list_shows_no_make_variable() -> None:
    listed = subprocess.check_output(["make", "--no-print-directory"], cwd=PROJECT, text=True)

    assert "clean" in listed
    assert "$(" not in listed


def test_packages_are_installed_by_hash() -> None:
    joined = (PROJECT / "Makefile").read_text().replace("\\\n", "")
    installs = [line for line in joined.splitlines() if "pip install" in line]
    own = [line for line in installs if line.endswith("-e .")]
    others = [line for line in installs if line not in own]

    assert len(own) == 1
    assert {"--no-deps", "--no-build-isolation"} <= set(own[0].split())
    assert others
    assert all("--require-hashes" in line.split() for line in others)


PINNED = [each.stem for each in (PROJECT / "requirements").glob("*.txt")]


@pytest.mark.parametrize("name", sorted(PINNED))
def test_every_pin_has_a_hash(name: str) -> None:
    pins = (PROJECT / "requirements" / f"{name}.txt").read_text().replace("\\\n", "")
    listed = [line for line in pins.splitlines() if line and not line.lstrip().startswith("#")]

    assert listed
    assert [line for line in listed if "==" not in line or "--hash=sha256:" not in line] == []


@pytest.mark.skipif(not AUDIT.exists(), reason="`make test-all` installs what writes it")
def test_bill_of_materials_names_every_pin(tmp_path: Path) -> None:
    file = tmp_path / "sbom.json"
    subprocess.run(
        ["make", "--no-print-directory", "sbom", f"SBOM={file}"], cwd=PROJECT, check=True
    )

    bill = json.loads(file.read_text())
    pins = (PROJECT / "requirements" / "serving.txt").read_text()
    named = {f"{each['name']}=={each['version']}" for each in bill["components"]}
    assert bill["metadata"]["component"]["name"] == "trivium"
    assert named == set(re.findall(r"^[\w.-]+==[^\s;]+", pins, re.M))


@pytest.mark.parametrize("name", ["desk", "models", "dev"])
def test_no_pin_slows_the_start_of_ray(name: str) -> None:
    """jsonschema, which Ray imports, compiles a grammar for a second where it finds this one."""
    pins = (PROJECT / "requirements" / f"{name}.txt").read_text()

    assert "jsonschema==" in pins
    assert "rfc3987-syntax==" not in pins
