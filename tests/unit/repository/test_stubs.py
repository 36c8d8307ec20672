"""The stubs of the TypeScript and the Go client are those that the protos give."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.tracked_files import ROOT, tracked_files

GENERATED = ("clients/go/v1", "clients/typescript/src/gen")
PLUGIN = ROOT / "clients" / "typescript" / "node_modules" / ".bin" / "protoc-gen-es"

pytestmark = [
    pytest.mark.node,
    pytest.mark.go,
    pytest.mark.skipif(not shutil.which("go"), reason="Go is not installed"),
    pytest.mark.skipif(not shutil.which("node"), reason="Node.js is not installed"),
    pytest.mark.skipif(not PLUGIN.exists(), reason="`make test` installs the plugins"),
]


def files_below(root: Path) -> dict[str, str]:
    found = [path for folder in GENERATED for path in (root / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in found}


def test_the_stubs_are_those_that_buf_generates(tmp_path: Path) -> None:
    buf = Path(sys.executable).with_name("buf")
    site = sysconfig.get_path("purelib")
    details = [site, "--path", f"{site}/google/rpc/error_details.proto"]
    template = ["--template", "clients/typescript/buf.gen.yaml"]
    for inputs in ([], [*template, *details]):
        subprocess.run([buf, "generate", "-o", tmp_path, *inputs], cwd=ROOT, check=True)

    generated = files_below(tmp_path)

    assert len(generated) == 20
    assert generated == files_below(ROOT), "run `make stubs`"
    assert set(generated) == set(tracked_files(*GENERATED))
