"""`make dist` and `make release`: what a release consists of, and its one version.

The version is that of `pyproject.toml`; every other place that names it is in `PLACES`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
SUMS = "SHA256SUMS"
GO_MODULE = "trivium.dev/go"
GO_FOLDER = "clients/go"
UNRELEASED = "## [Unreleased]\n"

VERSION = r"(\d+\.\d+\.\d+)"
_PROJECT = rf'(?:^version = "|"trivium-[\w\[\]]+>=){VERSION}"'
_WHEEL = rf"trivium_(?:client|server)-{VERSION}"
_IMAGE = rf"trivium:{VERSION}"
PLACES = (
    ("pyproject.toml", _PROJECT),
    ("clients/*/pyproject.toml", _PROJECT),
    ("clients/typescript/package.json", rf'^  "version": "{VERSION}"'),
    (
        "clients/typescript/package-lock.json",
        rf'"name": "trivium-client",\s+"version": "{VERSION}"',
    ),
    ("deploy/helm/trivium/Chart.yaml", rf"^(?:version|appVersion): {VERSION}"),
    ("deploy/helm/trivium/values-gpu.yaml", rf"tag: {VERSION}-gpu"),
    ("deploy/compose.yaml", _IMAGE),
    ("docs/gpu.md", _WHEEL),
    ("docs/deploying.md", _WHEEL),
    ("docs/deploying.md", _IMAGE),
)
"""Files, and what stands before and after the version in them."""


def version_of(root: Path = ROOT) -> str:
    """The version of all that is released together."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def versions(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Each place that names the version, and the version there; "none" if it names none."""
    for pattern, around in PLACES:
        for file in sorted(root.glob(pattern)):
            found = re.findall(around, file.read_text(), re.M)
            name = str(file.relative_to(root))
            yield from ((name, version) for version in found or ["none"])


def set_version(root: Path, version: str) -> None:
    """Writes a version to all places."""
    for pattern, around in PLACES:
        for file in root.glob(pattern):
            text = file.read_text()
            file.write_text(re.sub(around, lambda found: _with(found, version), text, flags=re.M))


def _with(found: re.Match[str], version: str) -> str:
    start, end = (at - found.start() for at in found.span(1))
    return found[0][:start] + version + found[0][end:]


def faults(root: Path = ROOT) -> list[str]:
    """The places with another version, and what else a release lacks."""
    released = version_of(root)
    differing = [
        f"{place} says {version}, not {released}"
        for place, version in dict.fromkeys(versions(root))
        if version != released
    ]
    if not (root / "protos/released.binpb").exists():
        differing.append("protos/released.binpb is missing: make proto-release")
    return differing


def packages(root: Path = ROOT) -> list[Path]:
    """The folders of the Python packages; the client first, which all others need."""
    clients = sorted(file.parent for file in root.glob("clients/*/pyproject.toml"))
    return [*sorted(clients, key=lambda folder: folder.name != "python"), root]


def build(out: Path, root: Path = ROOT) -> None:
    """Builds every package into a folder, without a network.

    Wheels are built from their sdists. The Go module is laid out as the files of a module proxy,
    which `GOPROXY=file://...` reads. The npm package is left out where npm is not installed.

    Raises:
        subprocess.CalledProcessError: A tool failed; its output is on standard error.
    """
    out.mkdir(parents=True, exist_ok=True)
    offline = ("--quiet", "--no-build-isolation", "--offline", "--no-create-gitignore")
    # Its environment has the build backend.
    options = (*offline, "--python", sys.executable)
    for folder in packages(root):
        _run(UV, "build", *options, "--out-dir", out, folder=folder)
    if npm := shutil.which("npm"):
        pack = ("pack", "--silent", "--ignore-scripts", "--pack-destination", out)
        _run(npm, *pack, folder=root / "clients/typescript")
    _build_go_module(out / "go", root)
    _build_chart(out, root)


def _run(*command: str | Path, folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def _tracked(root: Path, folder: str) -> list[Path]:
    command = ("git", "ls-files", "-z", "--", folder)
    listed = subprocess.check_output(command, cwd=root, text=True)
    return [root / name for name in listed.split("\0") if name]


def _build_go_module(out: Path, root: Path) -> None:
    """`GOPROXY` protocol: golang.org/ref/mod, "Module proxies" and "Module zip files"."""
    version, source = f"v{version_of(root)}", root / GO_FOLDER
    at = out / GO_MODULE / "@v"
    at.mkdir(parents=True, exist_ok=True)
    (at / "list").write_text(f"{version}\n")
    made = {"Version": version, "Time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    (at / f"{version}.info").write_text(json.dumps(made))
    shutil.copy(source / "go.mod", at / f"{version}.mod")
    with zipfile.ZipFile(at / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for file in _tracked(root, GO_FOLDER):
            packed.write(file, f"{GO_MODULE}@{version}/{file.relative_to(source)}")


def _build_chart(out: Path, root: Path) -> None:
    """The archive that `helm package` would make, which is not needed for it."""
    folder = root / "deploy/helm/trivium"
    with tarfile.open(out / f"trivium-chart-{version_of(root)}.tgz", "w:gz") as archive:
        for file in _tracked(root, str(folder.relative_to(root))):
            archive.add(file, f"trivium/{file.relative_to(folder)}")


def write_sums(out: Path) -> None:
    """Writes the SHA-256 of all files of a folder, for `sha256sum --check`."""
    files = sorted(each for each in out.rglob("*") if each.is_file() and each.name != SUMS)
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(out)}\n"
        for file in files
    ]
    (out / SUMS).write_text("".join(lines))


def cut(version: str, root: Path = ROOT, today: date | None = None) -> None:
    """Sets the version, dates the changelog, commits, and tags the commit.

    The second tag is that by which Go finds a module in a folder.

    Raises:
        click.ClickException: The tree has changes, the version is none or has a tag already, the
            changelog has nothing new, or a place cannot have the version.
    """
    tags = (f"v{version}", f"{GO_FOLDER}/v{version}")
    _require(bool(re.fullmatch(VERSION, version)), f"{version!r} is no version such as 0.1.0")
    _require(not _git(root, "status", "--porcelain"), "the tree has changes: commit them first")
    _require(not _git(root, "tag", "--list", *tags), f"{version} has a tag already")
    log = root / "CHANGELOG.md"
    before, heading, after = log.read_text().partition(UNRELEASED)
    _require(f"## [{version}]" not in after, f"CHANGELOG.md has a section [{version}] already")
    _require(
        bool(heading) and not after.lstrip().startswith("## ["), "CHANGELOG.md has nothing new"
    )
    day = today or datetime.now(UTC).date()
    log.write_text(f"{before}{heading}\n## [{version}] - {day.isoformat()}\n{after}")
    set_version(root, version)
    found = faults(root)
    _require(not found, "\n".join(found))
    _git(root, "commit", "--quiet", "--all", "--message", f"release: tag {version}")
    for tag in tags:
        _git(root, "tag", "--annotate", tag, "--message", f"Trivium {version}")


def _require(met: bool, otherwise: str) -> None:
    if not met:
        raise click.ClickException(otherwise)


def _git(root: Path, *arguments: str) -> str:
    return subprocess.check_output(("git", *arguments), cwd=root, text=True)


@click.group()
def main() -> None:
    """What a release consists of."""


@main.command("build")
@click.argument("out", type=click.Path(path_type=Path))
def build_command(out: Path) -> None:
    """Build every package into a new folder."""
    build(out.absolute())


@main.command()
@click.argument("out", type=click.Path(path_type=Path, exists=True))
def sums(out: Path) -> None:
    """Write the checksums of a folder."""
    write_sums(out)


@main.command("cut")
@click.argument("version")
def cut_command(version: str) -> None:
    """Set the version, commit and tag."""
    cut(version)


if __name__ == "__main__":
    main()
