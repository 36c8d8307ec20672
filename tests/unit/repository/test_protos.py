"""The committed stubs are current, and breaking changes of the protos are detected."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
PROTOC = ROOT / ".venv-protoc" / "bin" / "python"
STUBS = Path("trivium/v1")


@pytest.mark.skipif(not PROTOC.exists(), reason="`make unit` and `make test` install protoc")
def test_the_stubs_are_current(tmp_path: Path) -> None:
    protos = sorted(str(path) for path in (ROOT / "protos").glob("trivium/v1/*.proto"))
    subprocess.run(
        [
            PROTOC,
            "-m",
            "grpc_tools.protoc",
            f"-I{ROOT / 'protos'}",
            f"--plugin=protoc-gen-mypy_grpc={BIN / 'protoc-gen-mypy_grpc'}",
            *(f"--{kind}={tmp_path}" for kind in ("python_out", "pyi_out", "grpc_python_out")),
            f"--mypy_grpc_out=quiet:{tmp_path}",
            *protos,
        ],
        check=True,
    )

    generated = {path.name: path.read_text() for path in (tmp_path / STUBS).iterdir()}
    committed = {
        path.name: path.read_text()
        for path in (ROOT / "clients/python" / STUBS).iterdir()
        if path.is_file()
    }
    assert generated == committed


@pytest.fixture
def protos(tmp_path: Path) -> Path:
    """A copy of the protos, with the image of the released ones."""
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    return Path(shutil.copytree(ROOT / "protos", tmp_path / "protos"))


def breaking(protos: Path) -> subprocess.CompletedProcess[str]:
    """Compares the protos with the released ones."""
    return subprocess.run(
        [BIN / "buf", "breaking", "--against", "protos/released.binpb"],
        cwd=protos.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_protos_are_compatible_with_the_released_ones(protos: Path) -> None:
    result = breaking(protos)

    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize(
    ("declared", "changed"),
    [
        ("string briefing = 4;", "bytes briefing = 4;"),
        ("string briefing = 4;", "string block = 4;"),
        ("  string briefing = 4;\n", ""),
    ],
    ids=["type", "name", "deleted"],
)
def test_a_breaking_change_is_detected(protos: Path, declared: str, changed: str) -> None:
    path = protos / STUBS / "retrieval_service.proto"
    text = path.read_text()
    assert text.count(declared) == 1
    path.write_text(text.replace(declared, changed))

    result = breaking(protos)

    assert result.returncode == 100
    assert "retrieval_service.proto" in result.stdout
