"""Every package as a release has it: versioned, built from its sdist, installed, and removed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import click
import pytest

from tests.fixtures.cluster import Wheels
from tests.fixtures.desk import RunCommand
from tests.support import release
from tests.support.tracked_files import ROOT, tracked_files

PYTHONS = ("python3.11", "python3.12", "python3.13")
TYPESCRIPT = ROOT / "clients/typescript/dist/src"
INSTALL_TIMEOUT_S = 600

USES = """
from trivium import AsyncClient, Client, Segment
from trivium.conversation import Recall
from trivium_importers.sources import SOURCES
from trivium_langgraph import TriviumStore
from trivium_livekit import TriviumMemory
from trivium_llamaindex import TriviumRetriever
from trivium_mcp import Connection
from trivium_openai_agents import recall_tool
from trivium_pipecat import TriviumMemoryService

client = Client("127.0.0.1:9000", tenant="alice")
block: str = client.briefing("When?")
store = TriviumStore(client)
memory = TriviumMemory(AsyncClient("127.0.0.1:9000"), budget=0.1)
"""
MISUSES = """
from trivium import Client
from trivium_mcp import Connection

Client(1)
Connection(tls=1)
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """What is installed into an empty environment, the pins that hold there, and what it brings."""

    requirements: tuple[str, ...]
    pins: str
    commands: tuple[str, ...] = ()
    imports: tuple[str, ...] = ("trivium",)


CLIENT = Installation(("trivium-client[cli]",), "dev", ("trivium",))
INSTALLATIONS = {
    "client": CLIENT,
    "server": Installation(
        ("trivium-server[desk]",), "desk", ("trivium", "trivium-server"), ("trivium", "serving")
    ),
    "both": Installation(
        ("trivium-client", "trivium-server[desk,importers]"),
        "desk",
        ("trivium", "trivium-server", "trivium-import"),
        ("trivium", "serving", "trivium_importers"),
    ),
    "importers": Installation(
        ("trivium-importers",), "dev", ("trivium", "trivium-import"), ("trivium_importers",)
    ),
    "mcp": Installation(("trivium-mcp",), "dev", ("trivium-mcp",), ("trivium_mcp",)),
    "google_adk": Installation(("trivium-google-adk",), "adk", imports=("trivium_google_adk",)),
    "vapi": Installation(("trivium-vapi",), "dev", imports=("trivium_vapi",)),
    "langgraph": Installation(
        ("trivium-langgraph[tools,middleware]",),
        "dev",
        imports=("trivium_langgraph.middleware", "trivium_langgraph.tools"),
    ),
    **{
        name: Installation(
            (f"trivium-{name.replace('_', '-')}",), "integrations", imports=(f"trivium_{name}",)
        )
        for name in ("livekit", "llamaindex", "openai_agents", "pipecat", "pydantic_ai")
    },
}


def project(folder: Path) -> dict[str, str]:
    read: dict[str, str] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return read


def run(*command: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}  # noqa: TID251 - for a child
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_TIMEOUT_S,
    )


def succeed(*command: str | Path, folder: Path, **variables: str) -> str:
    done = run(*command, folder=folder, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def empty_environment(folder: Path, python: str = sys.executable) -> Path:
    succeed(python, "-m", "venv", "--without-pip", folder, folder=folder.parent)
    return folder / "bin" / "python"


def install(python: Path, *what: str | Path) -> None:
    succeed(release.UV, "pip", "install", "--quiet", "--python", python, *what, folder=ROOT)


SITE = "import site; print(*site.getsitepackages())"


def ours_in(python: Path) -> set[str]:
    """The files of an environment that bear our names: packages, metadata and commands."""
    site = Path(succeed(python, "-c", SITE, folder=python.parent).strip())
    names = {each.name for at in (site, python.parent) for each in at.iterdir()}
    return {name for name in names if re.match(r"_?trivium|serving$", name)}


def left_after_removal(python: Path) -> set[str]:
    listed = succeed(release.UV, "pip", "list", "--format", "json", "--python", python, folder=ROOT)
    ours = [each["name"] for each in json.loads(listed) if each["name"].startswith("trivium")]
    succeed(release.UV, "pip", "uninstall", "--quiet", "--python", python, *ours, folder=ROOT)
    return ours_in(python)


def test_names_of_packages_follow_their_folders() -> None:
    node = json.loads((ROOT / "clients/typescript/package.json").read_text())
    *clients, server = release.packages()
    names = {folder.name: project(folder)["name"] for folder in clients}

    assert project(server)["name"] == "trivium-server"
    assert names.pop("python") == node["name"] == "trivium-client"
    assert names == {name: f"trivium-{name.replace('_', '-')}" for name in names}
    assert len(names) == 10


@pytest.mark.parametrize("folder", release.packages(), ids=lambda folder: project(folder)["name"])
def test_package_has_licence_types_and_pythons(folder: Path) -> None:
    read = tomllib.loads((folder / "pyproject.toml").read_text())
    [package] = read["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (folder / package / "py.typed").exists()
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)}
    assert {"Typing :: Typed", *versions} <= set(read["project"]["classifiers"])


def test_client_alone_is_installed_and_removed(wheels: Wheels, tmp_path: Path) -> None:
    python = empty_environment(tmp_path / "environment")
    install(python, "--offline", "--no-deps", wheels.client)

    assert {"trivium"} == {name for name in ours_in(python) if "-" not in name}
    assert left_after_removal(python) == set()


# ---- what a release has, built as `make dist` does

release_only = pytest.mark.release


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    release.build(out)
    return out


@release_only
def test_wheels_hold_no_tests_and_share_nothing(dist: Path) -> None:
    owners = dict[str, str]()
    wheels = sorted(dist.glob("*.whl"))
    for wheel in wheels:
        for name in zipfile.ZipFile(wheel).namelist():
            assert not re.search(r"(^|/)(tests?|test_\w+\.py)(/|$)", name), (wheel, name)
            assert owners.setdefault(name, wheel.name) == wheel.name, name

    assert len(wheels) == len(release.packages())


@release_only
@pytest.mark.timeout(INSTALL_TIMEOUT_S)
@pytest.mark.parametrize("name", INSTALLATIONS)
def test_installation_is_whole_used_and_removed(name: str, dist: Path, tmp_path: Path) -> None:
    wanted = INSTALLATIONS[name]
    python = empty_environment(tmp_path / "environment")
    pins = ROOT / "requirements" / f"{wanted.pins}.txt"
    install(python, "--find-links", dist, "--constraint", pins, *wanted.requirements)

    succeed(release.UV, "pip", "check", "--python", python, folder=tmp_path)
    for each in wanted.commands:
        assert "usage" in succeed(python.with_name(each), "--help", folder=tmp_path).lower()
    succeed(python, "-I", "-c", f"import {', '.join(wanted.imports)}", folder=tmp_path)
    assert left_after_removal(python) == set()


@release_only
@pytest.mark.timeout(INSTALL_TIMEOUT_S)
def test_demo_of_the_packages_needs_no_clone(
    dist: Path, run_command: RunCommand, tmp_path: Path
) -> None:
    python = empty_environment(tmp_path / "environment")
    wanted = INSTALLATIONS["server"]
    pins = ROOT / "requirements" / f"{wanted.pins}.txt"
    install(python, "--find-links", dist, "--constraint", pins, *wanted.requirements)
    (empty := tmp_path / "empty").mkdir()

    ended = run_command(
        "demo", "--once", program=(str(python.with_name("trivium-server")),), at=empty
    )

    assert ended.code == 0, ended.said
    assert "5 of 5" in ended.said
    assert "Traceback" not in ended.said
    assert ended.leaves_nothing, ended
    assert list(empty.iterdir()) == []


@release_only
@pytest.mark.parametrize("name", PYTHONS)
def test_client_is_installed_for_each_python(name: str, dist: Path, tmp_path: Path) -> None:
    if run("sh", "-c", f"{name} --version", folder=tmp_path).returncode != 0:
        pytest.skip(f"{name} is not installed")
    python = empty_environment(tmp_path / "environment", name)
    pins = ROOT / "requirements/dev.txt"
    install(python, "--find-links", dist, "--constraint", pins, *CLIENT.requirements)

    assert "Usage" in succeed(python.with_name("trivium"), "--help", folder=tmp_path)


@release_only
def test_installed_packages_have_their_types(dist: Path, tmp_path: Path) -> None:
    python = empty_environment(tmp_path / "environment")
    install(python, "--offline", "--no-deps", *dist.glob("*.whl"))
    site = Path(succeed(python, "-c", SITE, folder=tmp_path).strip())
    # What the packages need, without what the usual environment imports from this checkout.
    (site / "usual.pth").write_text(sysconfig.get_path("purelib"))
    (tmp_path / "uses.py").write_text(USES)
    (tmp_path / "misuses.py").write_text(MISUSES)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python)
    right = run(*mypy, "uses.py", folder=tmp_path)
    wrong = run(*mypy, "misuses.py", folder=tmp_path)

    assert right.returncode == 0, right.stdout
    assert wrong.stdout.count("[arg-type]") == 2, wrong.stdout


@release_only
@pytest.mark.node
@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
@pytest.mark.skipif(not TYPESCRIPT.is_dir(), reason="`make test` builds the TypeScript client")
def test_npm_package_is_installed_and_imported(dist: Path, tmp_path: Path) -> None:
    [package] = dist.glob("trivium-client-*.tgz")
    succeed("npm", "install", "--no-audit", "--no-fund", package, folder=tmp_path)
    (tmp_path / "use.mjs").write_text(
        'import { TriviumClient } from "trivium-client"; console.log(typeof TriviumClient);'
    )

    assert succeed("node", "use.mjs", folder=tmp_path) == "function\n"


GO_README = (ROOT / release.GO_FOLDER / "README.md").read_text()
[GO_USE] = re.findall(r"^```go\n(package main\n.*?)^```$", GO_README, re.M | re.S)


@release_only
@pytest.mark.go
@pytest.mark.skipif(not shutil.which("go"), reason="Go is not installed")
def test_go_module_is_resolved_and_compiled(dist: Path, tmp_path: Path) -> None:
    proxies = f"file://{dist / 'go'},{succeed('go', 'env', 'GOPROXY', folder=tmp_path).strip()}"
    cache = tmp_path / "modules"
    go = {"GOPROXY": proxies, "GONOSUMDB": release.GO_MODULE, "GOFLAGS": "-modcacherw"}
    (tmp_path / "main.go").write_text(GO_USE)
    succeed("go", "mod", "init", "example.org/bot", folder=tmp_path, **go)
    version = f"v{release.version_of()}"
    # In the usual cache it would be taken for what was released under this version.
    shared = succeed("go", "env", "GOMODCACHE", folder=tmp_path).strip()
    go |= {"GOMODCACHE": str(cache), "GOPROXY": f"file://{shared}/cache/download,{proxies}"}
    succeed("go", "get", f"{release.GO_MODULE}@{version}", folder=tmp_path, **go)

    succeed("go", "build", "-o", "bot", ".", folder=tmp_path, **go)


@release_only
def test_checksums_name_every_file_of_a_release(dist: Path) -> None:
    release.write_sums(dist)

    checked = succeed("sha256sum", "--check", "--strict", release.SUMS, folder=dist)

    files = [each for each in dist.rglob("*") if each.is_file() and each.name != release.SUMS]
    assert len(checked.splitlines()) == len(files)


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
