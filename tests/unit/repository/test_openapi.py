"""openapi.json is that of the protos."""

from __future__ import annotations

from serving.http.static import OPENAPI
from tests.support import openapi


def test_openapi_describes_the_protos() -> None:
    current = openapi.text() == OPENAPI.read_text()
    assert current, "it is outdated: run `python -m tests.support.openapi`"
