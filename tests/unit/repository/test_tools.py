"""The tools of this repository: make, hooks, workflows, pins, generators, and the web site."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from packaging.requirements import Requirement

from tests.support import gpu_tests, site
from tests.support.tracked_files import ROOT, tracked_files

AUDIT = ROOT / ".venv-audit" / ".audit"


def test_the_list_shows_no_make_variable() -> None:
    listed = subprocess.check_output(["make", "--no-print-directory"], cwd=ROOT, text=True)

    assert "clean" in listed
    assert "$(" not in listed


@pytest.mark.skipif(not AUDIT.exists(), reason="`make test-all` installs what writes it")
def test_bill_of_materials_names_every_pin(tmp_path: Path) -> None:
    file = tmp_path / "sbom.json"
    subprocess.run(["make", "--no-print-directory", "sbom", f"SBOM={file}"], cwd=ROOT, check=True)

    bill = json.loads(file.read_text())
    pins = (ROOT / "requirements" / "serving.txt").read_text()
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
        "# On branch main\nindex: reject vectors",
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


CLIENTS = ROOT / "clients/python"


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


# ---------------------------------------------------------------- make test-gpu


def test_gpu_tests_without_cuvs_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu_tests, "find_spec", lambda _: None)
    monkeypatch.setattr(gpu_tests, "pytest_status", lambda *_: 0)

    assert gpu_tests.main() == 1
    assert "cuVS is not installed" in capsys.readouterr().out


# ---------------------------------------------------------------- pins


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


# ---------------------------------------------------------------- the web site


MKDOCS = ROOT / ".venv-site/bin/mkdocs"
CONTENTS = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]


def test_every_page_is_in_the_contents_once() -> None:
    pages = {*tracked_files("docs/*.md"), *site.OUTSIDE}

    counted = {page: CONTENTS.count(f" {site.place_of(page)}\n") for page in pages}

    assert {page: count for page, count in counted.items() if count != 1} == {}


@pytest.mark.release
@pytest.mark.skipif(not MKDOCS.exists(), reason="`make site` installs what makes it")
def test_site_is_made_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [MKDOCS, "build", "--quiet", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    home = (tmp_path / "site/index.html").read_text()
    assert 'src="flow.svg"' in home
    assert 'src="bench/baselines/peers/overview.png"' in home
    assert (tmp_path / "site/examples/ledger.ipynb").exists()
    assert 'id="trivium.Client.retrieve"' in (tmp_path / "site/python.html").read_text()


# ---------------------------------------------------------------- workflows and hooks


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


def test_hooks_run_the_checks_of_make_lint() -> None:
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
