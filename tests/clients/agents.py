"""Questions to a memory and its answers, for the plug-ins of agents."""

from __future__ import annotations

import re

import grpc
import pytest

from tests.fakes.service import Failure
from tests.support.tracked_files import ROOT
from trivium.v1.retrieval_service_pb2 import RetrieveResponse

BLOCK = "<memory>\nNora: We sailed to Goa.\n</memory>"
FOUND = RetrieveResponse(briefing=BLOCK)
DOWN = Failure(grpc.StatusCode.UNAVAILABLE, "down")
BAD = Failure(grpc.StatusCode.INVALID_ARGUMENT, "query: is too long")

with_each_answer = pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (FOUND, BLOCK),
        (RetrieveResponse(), "Nothing is known about that."),
        (DOWN, "The memory cannot be asked at the moment. Go on without it."),
        (BAD, "The memory cannot answer this question: query: is too long. Ask another one."),
    ],
    ids=["block", "nothing", "down", "bad question"],
)
"""An answer of the service, and what a tool tells its model then."""


def clock() -> str:
    """Says what time it is."""
    return "noon"


def program_of(page: str, address: str, model: str) -> str:
    """The program of a page, with another address, and `MODEL` in place of its model."""
    [code] = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    return str(code).replace("127.0.0.1:9000", address).replace(model, "MODEL")
