"""The stubs are those that the protos give, and breaking changes of the protos are detected."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from tests.support.tracked_files import ROOT, tracked_files

GO, TYPESCRIPT = "clients/go/v1", "clients/typescript/src/gen"
PLUGIN = ROOT / "clients" / "typescript" / "node_modules" / ".bin" / "protoc-gen-es"
TEMPLATE = ROOT / "buf.gen.yaml"
PROTOS = sorted((ROOT / "protos/trivium/v1").glob("*.proto"))
needs_node = [
    pytest.mark.node,
    pytest.mark.skipif(not shutil.which("node"), reason="Node.js is not installed"),
    pytest.mark.skipif(not PLUGIN.exists(), reason="`make test` installs the plugins"),
]


def files_below(root: Path, *folders: str) -> dict[str, str]:
    found = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in found}


def generated(out: Path, template: str, *folders: str) -> dict[str, str]:
    buf = Path(sys.executable).with_name("buf")
    site = sysconfig.get_path("purelib")
    details = [site, "--path", f"{site}/google/rpc/error_details.proto"]
    for inputs in (
        ["--template", template],
        ["--template", "clients/typescript/buf.gen.yaml", *details],
    ):
        subprocess.run([buf, "generate", "-o", out, *inputs], cwd=ROOT, check=True)
    return files_below(out, *folders)


@pytest.mark.parametrize(
    ("plugins", "folders"),
    [
        pytest.param(1, [TYPESCRIPT], marks=needs_node, id="typescript"),
        pytest.param(
            3,
            [TYPESCRIPT, GO],
            marks=[
                *needs_node,
                pytest.mark.go,
                pytest.mark.release,  # it compiles the plugins
                pytest.mark.skipif(not shutil.which("go"), reason="Go is not installed"),
            ],
            id="go",
        ),
    ],
)
def test_the_stubs_are_those_that_buf_generates(
    tmp_path: Path, plugins: int, folders: list[str]
) -> None:
    template = yaml.safe_load(TEMPLATE.read_text())
    template["plugins"] = template["plugins"][:plugins]

    made = generated(tmp_path, json.dumps(template), *folders)

    assert made == files_below(ROOT, *folders), "run `make stubs`"
    assert set(made) == set(tracked_files(*folders))


ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}


def unquoted(literal: re.Match[bytes]) -> bytes:
    escaped = literal[1]
    return bytes([ESCAPES.get(escaped) or int(escaped[1:], 16)])


def without_json_names(messages: Iterable[DescriptorProto]) -> None:
    for message in messages:
        without_json_names(message.nested_type)
        for field in message.field:
            field.ClearField("json_name")


@pytest.mark.parametrize("proto", PROTOS, ids=lambda proto: proto.stem)
def test_go_stubs_describe_the_protos(proto: Path) -> None:
    code = (ROOT / GO / f"{proto.stem}.pb.go").read_bytes()
    quoted = re.findall(rb'^\t"(.*)"', code.partition(b"_rawDesc = ")[2], re.MULTILINE)
    raw = re.sub(rb'\\([abtnvfr"\\]|x[0-9a-f]{2})', unquoted, b"".join(quoted))
    described = FileDescriptorProto.FromString(raw)
    without_json_names(described.message_type)

    stub = importlib.import_module(f"trivium.v1.{proto.stem}_pb2")
    current = FileDescriptorProto.FromString(stub.DESCRIPTOR.serialized_pb)

    assert described == current, "run `make stubs`"
    for service in current.service:
        methods = (ROOT / GO / f"{proto.stem}_grpc.pb.go").read_text()
        names = re.findall(r'_FullMethodName += "/trivium\.v1\.\w+/(\w+)"', methods)
        assert names == [method.name for method in service.method]


BIN = Path(sys.executable).parent
PROTOC = ROOT / ".venv-protoc" / "bin" / "python"
PYTHON_STUBS = Path("trivium/v1")


@pytest.mark.skipif(not PROTOC.exists(), reason="`make unit` and `make test` install protoc")
def test_the_stubs_are_current(tmp_path: Path) -> None:
    subprocess.run(
        [
            *(PROTOC, "-m", "grpc_tools.protoc", f"-I{ROOT / 'protos'}"),
            f"--plugin=protoc-gen-mypy_grpc={BIN / 'protoc-gen-mypy_grpc'}",
            *(f"--{kind}={tmp_path}" for kind in ("python_out", "pyi_out", "grpc_python_out")),
            f"--mypy_grpc_out=quiet:{tmp_path}",
            *PROTOS,
        ],
        check=True,
    )

    generated = {path.name: path.read_text() for path in (tmp_path / PYTHON_STUBS).iterdir()}
    committed = {
        path.name: path.read_text()
        for path in (ROOT / "clients/python" / PYTHON_STUBS).iterdir()
        if path.is_file()
    }
    assert generated == committed


@pytest.fixture
def copied_protos(tmp_path: Path) -> Path:
    """A copy of the protos, with the image of the released ones."""
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    return Path(shutil.copytree(ROOT / "protos", tmp_path / "protos"))


def breaking(copied_protos: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "buf", "breaking", "--against", "protos/released.binpb"],
        cwd=copied_protos.parent,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("declared", "changed"),
    [
        ("string briefing = 4;", "bytes briefing = 4;"),
        ("string briefing = 4;", "string block = 4;"),
        ("  string briefing = 4;\n", ""),
    ],
    ids=["type", "name", "deleted"],
)
def test_a_breaking_change_is_detected(copied_protos: Path, declared: str, changed: str) -> None:
    path = copied_protos / PYTHON_STUBS / "retrieval_service.proto"
    text = path.read_text()
    assert text.count(declared) == 1
    path.write_text(text.replace(declared, changed))

    result = breaking(copied_protos)

    assert result.returncode == 100
    assert "retrieval_service.proto" in result.stdout
