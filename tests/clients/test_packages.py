"""Every package as a release has it: its wheel, built from its sdist, installed and typed."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent for path in (ROOT / "clients").glob("*/pyproject.toml"))
FRAMEWORKS = ("agents", "livekit", "llama_index", "pipecat")
"""Those that the usual environment does not have."""
UV = Path(sys.executable).with_name("uv")

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


def project(folder: Path) -> dict[str, str]:
    read: dict[str, str] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return read


def test_versions_and_names_of_packages_are_one() -> None:
    node = json.loads((ROOT / "clients/typescript/package.json").read_text())
    versions = {folder.name: project(folder)["version"] for folder in [ROOT, *PACKAGES]}

    assert len(PACKAGES) == 8
    assert set(versions.values()) == {node["version"]}
    assert node["name"] == project(ROOT / "clients/python")["name"] == "trivium-client"
    others = {
        folder.name: project(folder)["name"] for folder in PACKAGES if folder.name != "python"
    }
    assert others == {name: f"trivium-{name.replace('_', '-')}" for name in others}


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def built(folder: Path, out: Path) -> list[Path]:
    """The sdist of a package, and the wheel that is built from it; needs no network."""
    done = run(UV, "build", "--no-build-isolation", "--offline", "--out-dir", out, folder=folder)
    assert done.returncode == 0, done.stderr
    return sorted(out.iterdir())


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheels of all clients."""
    out = tmp_path_factory.mktemp("packages")
    wheels = []
    for folder in PACKAGES:
        files = built(folder, out / folder.name)
        assert [each.suffix for each in files if each.name != ".gitignore"] == [".whl", ".gz"]
        wheels += [each for each in files if each.suffix == ".whl"]
    environment = out / "environment"
    python = environment / "bin" / "python"
    made = run(UV, "venv", "--offline", "--python", sys.executable, environment, folder=out)
    assert made.returncode == 0, made.stderr
    install = (UV, "pip", "install", "--offline", "--no-deps", "--python", python)
    installed = run(*install, *wheels, folder=out)
    assert installed.returncode == 0, installed.stderr
    site = run(python, "-c", "import site; print(site.getsitepackages()[0])", folder=out)
    # What the packages need, without what the usual environment imports from this checkout.
    usual = Path(site.stdout.strip()) / "usual.pth"
    usual.write_text(sysconfig.get_path("purelib"))
    return python


IMPORTS = f"""
import importlib, sys
for name in sys.argv[1:]:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in {FRAMEWORKS}:
            raise
    else:
        assert "environment" in module.__file__, module.__file__
"""


@pytest.mark.release
def test_installed_packages_can_be_imported(python: Path, tmp_path: Path) -> None:
    names = [path.parent.name for path in (ROOT / "clients").glob("*/*/py.typed")]
    done = run(python, "-I", "-c", IMPORTS, *names, folder=tmp_path)

    assert len(names) == len(PACKAGES)
    assert done.returncode == 0, done.stderr
    for command in ("trivium", "trivium-mcp", "trivium-import"):
        shown = run(python.with_name(command), "--help", folder=tmp_path)
        assert shown.returncode == 0, shown.stderr


@pytest.mark.release
def test_installed_packages_have_their_types(python: Path, tmp_path: Path) -> None:
    (tmp_path / "uses.py").write_text(USES)
    (tmp_path / "misuses.py").write_text(MISUSES)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python)
    right = run(*mypy, "uses.py", folder=tmp_path)
    wrong = run(*mypy, "misuses.py", folder=tmp_path)

    assert right.returncode == 0, right.stdout
    assert wrong.stdout.count("[arg-type]") == 2, wrong.stdout


@pytest.mark.release
def test_service_can_be_built_from_its_sdist(tmp_path: Path) -> None:
    names = [each.name for each in built(ROOT, tmp_path / "out")]

    version = project(ROOT)["version"]
    assert f"trivium-{version}.tar.gz" in names
    assert f"trivium-{version}-py3-none-any.whl" in names
