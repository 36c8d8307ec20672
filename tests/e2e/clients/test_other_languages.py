"""The clients of other languages before the running service, and stubs by the plain command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.service import Service

ROOT = Path(__file__).parents[3]
CLIENTS = ROOT / "clients"
TYPESCRIPT = CLIENTS / "typescript" / "dist" / "test"


def run(service: Service, *command: str, folder: Path) -> str:
    """The output of a command that reads the address of the service from its environment."""
    environment = {**os.environ, "TRIVIUM_TARGET": service.address}  # noqa: TID251 - for a child
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.node
@pytest.mark.skipif(not shutil.which("node"), reason="Node.js is not installed")
@pytest.mark.skipif(not TYPESCRIPT.is_dir(), reason="`make test` builds the TypeScript client")
def test_the_typescript_client_writes_finds_and_forgets(service: Service) -> None:
    files = sorted(map(str, TYPESCRIPT.glob("*.test.js")))
    output = run(service, "node", "--test", *files, folder=TYPESCRIPT)

    assert "# fail 0" in output
    assert "# skipped 0" in output


@pytest.mark.go
@pytest.mark.release  # it is compiled with all of gRPC
@pytest.mark.skipif(not shutil.which("go"), reason="Go is not installed")
def test_the_go_client_writes_finds_and_forgets(service: Service) -> None:
    output = run(service, "go", "test", "-count=1", "-v", ".", folder=CLIENTS / "go")

    assert "--- PASS: TestWhatIsWrittenIsFoundAndForgotten" in output
    assert "--- SKIP" not in output


PLAIN = """
import os, grpc
from trivium.v1 import ingest_service_pb2, ingest_service_pb2_grpc
from trivium.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc
channel = grpc.insecure_channel(os.environ["TRIVIUM_TARGET"])
segment = {"id": "t1", "text": "The lease in Lisbon starts in May."}
written = ingest_service_pb2_grpc.IngestServiceStub(channel).Ingest(
    ingest_service_pb2.IngestRequest(tenant="plain", items=[{"segment": segment}])
)
found = retrieval_service_pb2_grpc.RetrievalServiceStub(channel).Retrieve(
    retrieval_service_pb2.RetrieveRequest(
        tenant="plain",
        query="When does the lease start?",
        consistency_token=written.consistency_token,
        time_budget={"seconds": 20},
    )
)
print(found.hits[0].segment.id)
"""


def test_stubs_by_the_plain_command_write_and_find(service: Service, tmp_path: Path) -> None:
    protos = sorted(str(path) for path in (ROOT / "protos" / "trivium" / "v1").glob("*.proto"))
    out = [f"--{kind}={tmp_path}" for kind in ("python_out", "grpc_python_out")]
    plain = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "protos"), *out, *protos]
    subprocess.run(plain, check=True)

    assert run(service, sys.executable, "-c", PLAIN, folder=tmp_path) == "t1\n"
