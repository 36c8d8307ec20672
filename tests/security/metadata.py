"""What becomes of the metadata of a call: credentials, request ids and anything else."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

import grpc

from serving.config.profiles import ProfileBook
from serving.rpc.service import TriviumService
from tests.unit.rpc.calling import Call
from tests.unit.rpc.identity.callers import door
from trivium.v1 import retrieval_service_pb2

KEYS = ("authorization", "request_id", "traceparent", "authorization-bin")
COMPLETED_BY_ONE_CHARACTER = {"cut key", "twice"}
"""Credentials that a variation could make valid."""
NO_USE_CASES: Any = None
"""No call gets as far as them."""


class Doorkeeper:
    """Calls a service that requires credentials, with metadata that holds none.

    Attributes:
        rejected: Metadata that is nearly right, such as a key with another secret.
    """

    def __init__(self) -> None:
        gate = asyncio.run(door())
        self._service = TriviumService(
            NO_USE_CASES, ProfileBook.load(), authenticator=gate.authenticator
        )
        self.rejected: Sequence[bytes] = [
            _encoded(call) for name, call in gate.rejected.items() if _is_safe_to_vary(name, call)
        ]

    def receive(self, encoded: bytes) -> str:
        """Calls with one entry: its first byte selects the key, the others are the value.

        Returns:
            The name of the status.

        Raises:
            AssertionError: The call is answered, or its status is an unexpected one.
        """
        key = KEYS[encoded[0] % len(KEYS)] if encoded else KEYS[0]
        value: str | bytes = encoded[1:]
        if not key.endswith("-bin"):
            value = encoded[1:].decode("latin-1")  # as gRPC does with what is not UTF-8
        call = Call([(key, value)])
        request = retrieval_service_pb2.ListProfilesRequest()
        _run(self._service.ListProfiles(request, call).__await__())
        denied = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
        assert call.code in denied, f"{call.code}: {call.details}"
        return call.code.name


def _run(call: Generator[Any, Any, object]) -> None:
    """Runs a call that is rejected before it waits for anything, which needs no event loop."""
    waits = any(True for _ in call)
    assert not waits, "the call was not rejected at once"


def _is_safe_to_vary(name: str, call: Call) -> bool:
    texts = all(isinstance(value, str) for _, value in call.metadata)
    return bool(call.metadata) and texts and name not in COMPLETED_BY_ONE_CHARACTER


def _encoded(call: Call) -> bytes:
    [(_, value), *_] = call.metadata
    assert isinstance(value, str), "chosen so"
    return b"\0" + value.encode("latin-1")
