"""Bounds what the request of an RPC may be, before it is read: its bytes, and its values.

Reading costs as much as there are values, and a value takes two bytes: 64 MiB may become 33 million
objects. So values are counted in what was sent, before it is read, for gRPC and HTTP alike, and
what is large is counted and read in a thread.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from serving.rpc.pending import PENDING_CALLS
from serving.rpc.registration import METHODS, Malformed

MIN_VALUE_BYTES = 2
"""A value of JSON has a comma or a bracket, a field of protobuf a tag and a length or a value."""
MAX_BYTES_ON_LOOP = 16 * 1024
"""More is read in a thread, so that other calls go on."""

Result = TypeVar("Result")


class Bounds(NamedTuple):
    """The most bytes and values of a request."""

    max_bytes: int
    max_values: int

    def fault(self, data: bytes, values_of: Callable[[bytes, int], int]) -> Malformed | None:
        """The exceeded bound; `values_of` counts until there are more than it is given."""
        if len(data) > self.max_bytes:
            return Malformed(f"has {len(data):,} bytes; at most {self.max_bytes:,} are read")
        if len(data) <= MIN_VALUE_BYTES * self.max_values:
            return None
        if values_of(data, self.max_values) > self.max_values:
            return Malformed(f"has more than {self.max_values:,} values, or is no message")
        return None


# The query may have 1 MiB, the vector 4,000 numbers, and each of two lists of ids 1,000.
QUESTION = Bounds(max_bytes=5 << 18, max_values=8192)
# A thousand items. As JSON, 400,000 numbers of vectors have about the 4 MiB that HTTP allows.
BATCH = Bounds(max_bytes=64 << 20, max_values=400_000)
# A few names, numbers and times, and a token.
SMALL = Bounds(max_bytes=64 << 10, max_values=1024)

_BOUNDS = {
    **dict.fromkeys(("Ingest", "IngestStream"), BATCH),
    **dict.fromkeys(("Warm", "DescribeEntity", "WatchChanges", "GetStats", "ListProfiles"), SMALL),
    **dict.fromkeys(
        ("ListTenants", "ListAuditEntries", "ListKeys", "CreateKey", "RevokeKey"), SMALL
    ),
}


def bounds_of(rpc: str) -> Bounds:
    """The bounds of an RPC: by default those of a question."""
    return _BOUNDS.get(rpc, QUESTION)


async def off_loop(convert: Callable[[], Result], size: int) -> Result:
    """Runs a conversion of `size` bytes; in a thread if there are many."""
    if size <= MAX_BYTES_ON_LOOP:
        return convert()
    # Its call waits for no method meanwhile, and has no question refused as if it did.
    with PENDING_CALLS.in_method():
        return await asyncio.to_thread(convert)


async def read_wire(rpc: str, data: bytes, read: Callable[[bytes], Result]) -> Result | Malformed:
    """Reads the binary format of protobuf within the bounds of an RPC."""
    values_of = partial(_wire_values_of, rpc)
    return await off_loop(lambda: bounds_of(rpc).fault(data, values_of) or read(data), len(data))


async def fault_of_body(rpc: str, data: bytes, *, is_json: bool) -> Malformed | None:
    """The bound of an RPC that the body of a request exceeds."""
    values_of = json_values if is_json else partial(_wire_values_of, rpc)
    return await off_loop(partial(bounds_of(rpc).fault, data, values_of), len(data))


# One that is not closed ends with the data: the search begins at no quotation mark in it again.
_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


def json_values(data: bytes, most: int) -> int:
    """The number of values in JSON, or more than `most` if there are more.

    Texts, arrays and objects, which cost more than numbers, count twice, and names once.
    """
    # The search for texts holds the interpreter; marks without a backslash tell of most data.
    marks = data.count(b'"')
    if marks > 2 * most and (unescaped := marks - data.count(b'\\"')) > 2 * most:
        return (unescaped + 1) // 2
    without_texts, texts = _TEXTS.subn(b"", data, count=most + 1)
    if texts > most:
        return texts
    return texts + without_texts.count(b",") + without_texts.count(b"[") + without_texts.count(b"{")


def _wire_values_of(rpc: str, data: bytes, most: int) -> int:
    return wire_values(data, METHODS[rpc].input_type if rpc in METHODS else None, most)


def wire_values(data: bytes, descriptor: Descriptor | None, most: int) -> int:
    """The number of fields of a message and of those in it; `most` + 1 if there are more.

    So it is for what is no message, too. A packed field is one: its numbers take no more memory
    than they have bytes.
    """
    count, at, end, inner = 0, 0, len(data), _messages_of(descriptor)
    outer: list[tuple[int, Mapping[int, Descriptor]]] = []
    try:
        while count <= most:
            if at == end:
                if not outer:
                    return count
                end, inner = outer.pop()
                continue
            count += 1
            tag, at = _varint(data, at)
            kind, message = tag & 7, inner.get(tag >> 3)
            if kind not in _SIZES:  # a group, which proto3 has not
                break
            size, at = _varint(data, at) if kind in (_VARINT, _LENGTH) else (_SIZES[kind], at)
            if kind == _VARINT:
                continue
            if at + size > end:
                break
            if kind == _LENGTH and message is not None:
                outer.append((end, inner))
                end, inner = at + size, _messages_of(message)
            else:
                at += size
    except IndexError:
        pass
    return most + 1


_VARINT, _LENGTH = 0, 2
_SIZES = {_VARINT: 0, 1: 8, _LENGTH: 0, 5: 4}
"""The bytes of the values of each wire type, where they are fixed."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value < 0x80:
        return value, at
    value, shift = value & 0x7F, 7
    while (byte := data[at]) >= 0x80:
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | byte << shift, at + 1


@cache
def _messages_of(descriptor: Descriptor | None) -> Mapping[int, Descriptor]:
    """The fields of a message that are messages, by number."""
    fields: Sequence[FieldDescriptor] = () if descriptor is None else descriptor.fields
    return {each.number: each.message_type for each in fields if each.message_type is not None}
