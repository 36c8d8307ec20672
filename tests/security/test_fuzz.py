"""The quick form of `make fuzz`, and the values that are counted in hostile messages."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from serving.rpc.identity.rules import RULES
from serving.rpc.message_bounds import wire_values
from serving.rpc.registration import METHODS
from tests.security.edge import METADATA, TARGETS, Edge, Inputs
from tests.security.hostile import Hostility
from tests.support.processes import inherited_environment
from trivium.v1.catalog_service_pb2 import GetSegmentsRequest
from trivium.v1.retrieval_service_pb2 import RetrieveRequest

ACCEPTED, MALFORMED, REJECTED = "accepted", "undecodable", "INVALID_FIELD"
DENIED = {"UNAUTHENTICATED", "PERMISSION_DENIED"}
EDGE = Edge()
MIB = 1024 * 1024


def test_every_rpc_is_tried() -> None:
    assert set(METHODS) == set(RULES)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_hostile_request_is_accepted_or_rejected_with_fields(method: str) -> None:
    inputs = Inputs(7, EDGE)

    outcomes = Counter(EDGE.receive(method, inputs.make(method)) for _ in range(400))

    assert set(outcomes) <= {ACCEPTED, REJECTED, MALFORMED}
    assert outcomes[REJECTED] > 0


def test_no_hostile_credentials_are_accepted() -> None:
    inputs = Inputs(7, EDGE)

    outcomes = Counter(EDGE.receive(METADATA, inputs.make(METADATA)) for _ in range(1000))

    assert set(outcomes) == DENIED, outcomes


@given(target=st.sampled_from(TARGETS), encoded=st.binary(max_size=200))
def test_any_bytes_are_accepted_or_rejected(target: str, encoded: bytes) -> None:
    assert EDGE.receive(target, encoded) in {ACCEPTED, REJECTED, MALFORMED, *DENIED}


def deep(levels: int) -> Struct:
    """A struct in a struct, and so on."""
    inner = Struct()
    for _ in range(levels):
        outer = Struct()
        outer.fields["legs"].struct_value.CopyFrom(inner)
        inner = outer
    return inner


def asking(**more: Any) -> RetrieveRequest:
    return RetrieveRequest(tenant="acme", query="where?", **more)


HUGE: Mapping[str, tuple[str, Callable[[], Message]]] = {
    "question": ("Retrieve", lambda: RetrieveRequest(tenant="acme", query="a" * 8 * MIB)),
    "vector": ("Retrieve", lambda: asking(vector=[0.5] * 10_000_000)),
    "ids": ("GetSegments", lambda: GetSegmentsRequest(tenant="acme", ids=["a"] * MIB)),
    "deep struct": ("Retrieve", lambda: asking(profile_overrides=deep(10))),
    "deepest struct": ("Retrieve", lambda: asking(profile_overrides=deep(30))),
}


@pytest.mark.parametrize(("method", "request_of"), HUGE.values(), ids=HUGE)
def test_a_huge_request_is_rejected(method: str, request_of: Callable[[], Message]) -> None:
    encoded = request_of().SerializeToString()

    assert EDGE.receive(method, encoded) in {REJECTED, MALFORMED}


def test_inputs_varied_by_coverage_are_read_properly(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="there are wheels for Linux on x86-64 alone")
    results, temporary = tmp_path / "results", tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "tests.security.fuzz", "--guided", "--inputs", "5000"]

    done = subprocess.run(
        [*command, "--out", str(results)],
        env={**inherited_environment(), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "guided: 5000 inputs" in done.stdout
    assert not [*temporary.iterdir()]


def fields_in(message: Any) -> int:
    """The fields of a message and of those in it, with each value of a repeated one."""
    count = 0
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of_value = field.message_type.fields_by_name["value"].message_type
            inner = [fields_in(each) if of_value else 0 for each in value.values()]
            count += sum(3 + each for each in inner)
        elif field.message_type is not None:
            count += sum(1 + fields_in(each) for each in (value if field.is_repeated else [value]))
        elif field.is_repeated and field.type == field.TYPE_STRING:
            count += len(value)
        else:
            count += 1
    return count


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_fields_of_messages_are_all_counted(method: Any) -> None:
    hostility = Hostility(1, {})
    for _ in range(20):
        message = hostility.message(method.input_type)
        encoded = message.SerializeToString()

        # A value of a map that is empty may be left out.
        assert wire_values(encoded, method.input_type, 10**6) <= fields_in(message)
        assert 3 * wire_values(encoded, method.input_type, 10**6) >= fields_in(message)
