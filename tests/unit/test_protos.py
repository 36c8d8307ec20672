"""The committed stubs are what the protos generate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STUBS = Path("trivium/v1")


def test_the_stubs_are_current(tmp_path: Path) -> None:
    bin_dir = Path(sys.executable).parent
    protos = sorted(str(path) for path in (ROOT / "protos").glob("trivium/v1/*.proto"))
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{ROOT / 'protos'}",
            f"--plugin=protoc-gen-mypy_grpc={bin_dir / 'protoc-gen-mypy_grpc'}",
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
