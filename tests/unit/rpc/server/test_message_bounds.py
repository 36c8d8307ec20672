"""What a request may be: its values are counted as the parsers would find them."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from serving.rpc import message_bounds
from serving.rpc.message_bounds import (
    BATCH,
    QUESTION,
    SMALL,
    json_values,
    off_loop,
    read_wire,
    wire_values,
)
from serving.rpc.pending import PendingCalls
from serving.rpc.registration import Malformed
from trivium.v1 import catalog_service_pb2 as catalog
from trivium.v1 import ingest_service_pb2 as ingest
from trivium.v1 import retrieval_service_pb2 as retrieval

MOST = 1000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def values_in(value: object) -> int:
    """The values of JSON, names included, which is at most what is counted."""
    match value:
        case dict():
            return 1 + len(value) + sum(map(values_in, value.values()))
        case list():
            return 1 + sum(map(values_in, value))
    return 1


def counted(encoded: bytes, message: Any, most: int) -> int:
    return wire_values(encoded, message.DESCRIPTOR, most)


@given(JSON)
def test_values_of_json_are_all_counted(value: object) -> None:
    texts = json.dumps(value, ensure_ascii=False).encode()

    assert values_in(value) - 1 <= json_values(texts, 10**6) <= 3 * values_in(value)


@pytest.mark.parametrize("damage", ['"', '\\"', '",', "\\", "a,", '"\\'])
def test_marks_in_texts_are_no_values(damage: str) -> None:
    text = json.dumps({"query": damage * MOST}).encode()

    assert json_values(text, MOST) <= 3
    assert json_values(b'{"a' + damage.encode(), MOST) <= 4


@pytest.mark.parametrize("most", range(1, 6))
@pytest.mark.parametrize("text", ['"",', '"\\"",', '"\\\\",'])
def test_texts_are_too_many_from_one_above_the_most(text: str, most: int) -> None:
    of_most, above = (text.encode() * count for count in (most // 3, most + 1))

    assert json_values(of_most, most) <= most < json_values(above, most)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x12\x00" * (MOST + 1), ingest.IngestRequest),
        (b"\x12\x05\x0a\x03\x5a\x01a" * MOST, ingest.IngestRequest),
        (b"\x32\x00" * (MOST + 1), retrieval.RetrieveRequest),
        (b"\x72\x00" * (MOST + 1), retrieval.RetrieveRequest),
        (b"\x1d\x00\x00\x80\x3f" * (MOST + 1), retrieval.RetrieveRequest),
        (b"\xf8\x07\x00" * (MOST + 1), retrieval.RetrieveRequest),
    ],
)
def test_count_of_fields_ends_above_the_most(data: bytes, message: Any) -> None:
    assert counted(data, message, MOST) == MOST + 1


@pytest.mark.parametrize(
    "data", [b"\x12", b"\x12\x05\x0a", b"\x12\x02\x0a\x05", b"\x13", b"\x0b\x0c"]
)
def test_data_of_no_message_exceeds_every_bound(data: bytes) -> None:
    assert counted(data, ingest.IngestRequest, MOST) == MOST + 1


def test_largest_vector_and_lists_of_ids_are_a_question() -> None:
    request = retrieval.RetrieveRequest(query="a" * 2**20, vector=[0.1] * 4000)
    request.filter.none_of.ids.extend(["x" * 36] * 1000)
    request.filter.none_of.fact_ids.extend(["x" * 36] * 1000)
    encoded = request.SerializeToString()
    as_json = json.dumps({"vector": [0.1] * 4000, "ids": ["x" * 36] * 2000}).encode()

    assert QUESTION.fault(encoded, lambda *_: QUESTION.max_values) is None
    assert counted(encoded, request, QUESTION.max_values) <= QUESTION.max_values
    assert json_values(as_json, QUESTION.max_values) <= QUESTION.max_values


@pytest.mark.parametrize(
    ("rpc", "data"),
    [
        ("Retrieve", b"a" * (QUESTION.max_bytes + 1)),
        ("Retrieve", b"\x32\x00" * (QUESTION.max_values + 1)),
        # One value, which no count tells of.
        ("Retrieve", retrieval.RetrieveRequest(query="a" * QUESTION.max_bytes).SerializeToString()),
        ("GetStats", catalog.GetStatsRequest(tenant="a" * SMALL.max_bytes).SerializeToString()),
        ("Check", b"a" * (QUESTION.max_bytes + 1)),
        ("Ingest", b"\x12\x00" * (BATCH.max_values + 1)),
        ("IngestStream", b"\x12\x00" * (BATCH.max_values + 1)),
    ],
)
async def test_message_beyond_a_bound_is_never_read(rpc: str, data: bytes) -> None:
    read = await read_wire(rpc, data, lambda _: pytest.fail("it was read"))

    assert isinstance(read, Malformed)


async def test_large_messages_alone_are_read_in_threads() -> None:
    def thread() -> str:
        return threading.current_thread().name

    here = threading.current_thread().name
    most = message_bounds.MAX_BYTES_ON_LOOP

    assert await off_loop(thread, most) == here
    assert await off_loop(thread, most + 1) != here


async def test_call_that_is_read_is_not_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    pending = PendingCalls()
    monkeypatch.setattr(message_bounds, "PENDING_CALLS", pending)

    with pending.opened():
        counted = await off_loop(pending.count, 2**20)

    assert counted == 0


def test_structs_are_counted_to_their_depth() -> None:
    struct = Struct()
    struct.update({"a": [{"b": None}] * MOST})
    request = retrieval.RetrieveRequest(profile_overrides=struct)

    assert counted(request.SerializeToString(), request, MOST) == MOST + 1
