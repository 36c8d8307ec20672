"""A client that is generated from openapi.json works."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving.http.application import asgi_application
from serving.http.static import OPENAPI
from tests.unit.http.requesting import FakeRpcs
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

GENERATOR = Path(__file__).parents[3] / ".venv-protoc" / "bin" / "openapi-python-client"
NAME = "generated_client"

pytestmark = pytest.mark.skipif(
    not GENERATOR.exists(), reason="`make unit` and `make test` install the generator"
)


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports what the generator writes, as users of Python have it."""
    # Without formatting, for which another tool would be needed.
    (tmp_path / "config.yaml").write_text("post_hooks: []\n")
    subprocess.run(
        [
            *(GENERATOR, "generate", "--path", OPENAPI, "--meta", "none", "--fail-on-warning"),
            *("--config", tmp_path / "config.yaml", "--output-path", tmp_path / NAME),
        ],
        check=True,
        capture_output=True,
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda module: importlib.import_module(f"{NAME}{module}")
    for name in [each for each in sys.modules if each.partition(".")[0] == NAME]:
        del sys.modules[name]


async def test_client_generated_from_openapi_calls_the_service(generated: Any) -> None:
    models = generated(".models")
    service: Any = FakeRpcs(retrieval_pb.RetrieveResponse(hits=[retrieval_pb.Hit(rank=1)]))
    transport = httpx.ASGITransport(asgi_application(service))
    client = generated("").Client("http://127.0.0.1:8000", httpx_args={"transport": transport})

    found = await generated(".api.plain.retrieve").asyncio(
        client=client, body=models.RetrieveRequest(tenant="acme", query="Where is Zanzibar?")
    )

    assert [hit.rank for hit in found.hits] == [1]
    assert service.requests[0].query == "Where is Zanzibar?"
