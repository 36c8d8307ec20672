"""`make release-check`: whether all that is released together has one version."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHEEL = re.compile(r"trivium-(\d[\w.]*)-py3-none-any\.whl")
TAG = re.compile(r"trivium:(\d[\w.]*)")
CHART = re.compile(r"^(?:version|appVersion): (\S+)$", re.M)
GPU_TAG = re.compile(r"tag: (\S+)-gpu\b")


def versions(root: Path) -> Iterator[tuple[str, str]]:
    """Each place that names the version, and what it says: wheel, clients, image and chart."""
    for package in (root / "pyproject.toml", *root.glob("clients/*/pyproject.toml")):
        project = tomllib.loads(package.read_text())["project"]
        yield str(package.relative_to(root)), project["version"]
    typescript = root / "clients/typescript/package.json"
    yield str(typescript.relative_to(root)), json.loads(typescript.read_text())["version"]
    for name, pattern in (
        ("deploy/helm/trivium/Chart.yaml", CHART),
        ("deploy/helm/trivium/values-gpu.yaml", GPU_TAG),
        ("deploy/compose.yaml", TAG),
        ("docs/operating.md", WHEEL),
        ("docs/operating.md", TAG),
    ):
        found = pattern.findall((root / name).read_text())
        yield from ((name, version) for version in found or ["none"])


def faults(root: Path) -> list[str]:
    """What keeps the repository from being released; empty if nothing does."""
    stated = dict.fromkeys(versions(root))
    [(_, released), *_] = stated
    differing = [f"{place} says {it}, not {released}" for place, it in stated if it != released]
    log = (root / "CHANGELOG.md").read_text()
    if f"## [{released}]" not in log:
        differing.append(f"CHANGELOG.md has no section [{released}]: rename [Unreleased]")
    if not (root / "protos/released.binpb").exists():
        differing.append("protos/released.binpb is missing: make proto-release")
    return differing


def main() -> None:
    """Prints the faults, and fails if there are any."""
    found = faults(ROOT)
    print("\n".join(found) or f"one version: {dict(versions(ROOT))['pyproject.toml']}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
