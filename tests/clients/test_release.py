"""`make release` in a copy of the repository: one version everywhere, a dated changelog, tags."""

from __future__ import annotations

import shutil
import subprocess
from datetime import date
from pathlib import Path

import click
import pytest

from tests.support import release
from tests.support.tracked_files import ROOT, tracked_files

LOG = "# Changelog\n\n## [Unreleased]\n\n* Something new.\n\n## [0.0.9] - 2026-01-01\n"
DAY = date(2026, 12, 1)
OF_A_VERSION = ("CHANGELOG.md", "protos/released.binpb", *{name for name, _ in release.versions()})


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return subprocess.check_output(("git", *identity, *arguments), cwd=root, text=True).strip()


def copied(folder: Path, *files: str) -> Path:
    for name in files:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    (folder / "CHANGELOG.md").write_text(LOG)
    git(folder, "init", "--quiet")
    git(folder, "config", "user.name", "A")
    git(folder, "config", "user.email", "a@example.org")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "start: here")
    return folder


def test_release_sets_one_version_everywhere_and_tags(tmp_path: Path) -> None:
    root = copied(tmp_path, *OF_A_VERSION)

    release.cut("9.8.7", root, DAY)

    assert {version for _, version in release.versions(root)} == {"9.8.7"}
    log = (root / "CHANGELOG.md").read_text()
    assert "## [Unreleased]\n\n## [9.8.7] - 2026-12-01\n\n* Something new." in log
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "tag", "--points-at", "HEAD").split() == ["clients/go/v9.8.7", "v9.8.7"]


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0rc1", ""])
def test_version_of_another_form_is_refused(version: str, tmp_path: Path) -> None:
    root = copied(tmp_path, *OF_A_VERSION)

    with pytest.raises(click.ClickException, match="no version"):
        release.cut(version, root)


def test_release_of_a_changed_tree_is_refused(tmp_path: Path) -> None:
    root = copied(tmp_path, *OF_A_VERSION)
    (root / "left").touch()

    with pytest.raises(click.ClickException, match="has changes"):
        release.cut("9.8.7", root)


def test_released_version_and_empty_changelog_are_refused(tmp_path: Path) -> None:
    root = copied(tmp_path, *OF_A_VERSION)
    release.cut("9.8.7", root)

    with pytest.raises(click.ClickException, match="has a tag"):
        release.cut("9.8.7", root)
    with pytest.raises(click.ClickException, match="nothing new"):
        release.cut("9.8.8", root)


def test_place_with_another_version_is_named(tmp_path: Path) -> None:
    root = copied(tmp_path, *OF_A_VERSION)
    chart = root / "deploy/helm/trivium/Chart.yaml"
    chart.write_text(chart.read_text().replace("appVersion: ", "appVersion: 9"))

    [fault] = release.faults(root)

    assert fault.startswith("deploy/helm/trivium/Chart.yaml says 9")


@pytest.mark.release
def test_release_is_built_from_the_tagged_tree(tmp_path: Path) -> None:
    root = copied(tmp_path / "tree", *tracked_files())
    release.cut("9.8.7", root)

    release.build(tmp_path / "dist", root)

    names = {each.name for each in (tmp_path / "dist").iterdir()}
    assert {
        "trivium_client-9.8.7-py3-none-any.whl",
        "trivium_server-9.8.7-py3-none-any.whl",
        "trivium_server-9.8.7.tar.gz",
        "trivium-chart-9.8.7.tgz",
        "go",
    } <= names
    assert (tmp_path / "dist/go/trivium.dev/go/@v/v9.8.7.zip").exists()
