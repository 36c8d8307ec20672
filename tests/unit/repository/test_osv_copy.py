"""`make audit OSV=FILE` compares the pins with a copy of OSV's database."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from requirements import osv_copy
from tests.support.tracked_files import ROOT

PIP_AUDIT = ROOT / ".venv-audit" / "bin" / "pip-audit"
installed = pytest.mark.skipif(not PIP_AUDIT.exists(), reason="`make test-all` installs pip-audit")


def entry(package: str = "Some_Package", **affected: Any) -> dict[str, Any]:
    return {"package": {"ecosystem": "PyPI", "name": package}, **affected}


def events(**at: str) -> dict[str, Any]:
    each = [{kind.rstrip("0123456789"): version} for kind, version in at.items()]
    return entry(ranges=[{"type": "ECOSYSTEM", "events": each}])


def vulnerability(*affected: dict[str, Any]) -> dict[str, Any]:
    return {"id": "MADE-UP-1", "modified": "2026-05-01T00:00:00Z", "affected": list(affected)}


@pytest.mark.parametrize(
    ("version", "affected", "expected"),
    [
        ("1.9", events(introduced="0", fixed="2"), True),
        ("2.0.0", events(introduced="0", fixed="2"), False),
        ("2.0rc1", events(introduced="0", fixed="2"), True),
        ("1", events(introduced="1.1", fixed="2"), False),
        ("1.1", events(introduced="1.1"), True),
        ("10", events(introduced="9", fixed="11"), True),
        ("2", events(introduced="0", last_affected="2"), True),
        ("2.1", events(introduced="0", last_affected="2"), False),
        ("2.5", events(fixed2="3", introduced2="2.5", fixed="2", introduced="0"), True),
        ("2.4", events(fixed2="3", introduced2="2.5", fixed="2", introduced="0"), False),
        ("1", events(introduced="unreadable"), True),
        ("1.0", entry(versions=["1", "0.old-form"]), True),
        ("1.1", entry(versions=["1", "0.old-form"]), False),
        ("1", entry(ranges=[{"type": "GIT", "events": [{"introduced": "0"}]}]), False),
    ],
)
def test_a_version_is_affected_as_the_schema_defines_it(
    version: str, affected: dict[str, Any], expected: bool
) -> None:
    assert osv_copy.is_affected(Version(version), affected) is expected


def test_vulnerability_is_found_by_any_spelling_of_package() -> None:
    other = {**entry("other", versions=["1"]), "package": {"ecosystem": "npm", "name": "other"}}
    copy = osv_copy.OsvCopy([vulnerability(entry(versions=["1"]), other)])

    assert [each["id"] for each in copy.of("some-package", "1")] == ["MADE-UP-1"]
    assert copy.of("some-package", "2") == []
    assert copy.of("other", "1") == []


def audited(tmp_path: Path, copy: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Compares one pin with a copy that has these files."""
    pins = tmp_path / "pins.txt"
    pins.write_text(f"some-package==1.5 --hash=sha256:{'0' * 64}\n")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as file:
        for name, text in copy.items():
            file.writestr(name, text)
    pip_audit = [str(PIP_AUDIT), "--disable-pip", f"--cache-dir={tmp_path}/cache", f"-r{pins}"]
    return subprocess.run(
        [sys.executable, osv_copy.__file__, str(tmp_path / "all.zip"), *pip_audit],
        env={"no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )


@installed
@pytest.mark.parametrize(("fixed", "code"), [("2", 1), ("1.5", 0)])
def test_pip_audit_reports_what_the_copy_has(tmp_path: Path, fixed: str, code: int) -> None:
    found = vulnerability(events(introduced="0", fixed=fixed))

    done = audited(tmp_path, {"MADE-UP-1.json": json.dumps(found)})

    assert done.returncode == code, done.stderr
    assert ("MADE-UP-1" in done.stdout) == bool(code)
    assert "as known on 2026-05-01" in done.stdout


@pytest.mark.parametrize("copy", [{}, {"readme.txt": ""}, {"a.json": "{}"}, {"a.json": "["}])
def test_invalid_copy_does_not_pass(tmp_path: Path, copy: dict[str, str]) -> None:
    done = audited(tmp_path, copy)

    assert done.returncode == 1
    assert "all.zip" in done.stderr
