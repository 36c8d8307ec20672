"""Compares every acknowledgement with the stores and the answers. Pure.

Writes of several clients may overlap, so a group is a register: a version is right as long as no
acknowledged operation began after its own acknowledgement. An attempt that failed must not happen
later than the attempt that was acknowledged.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tests.chaos.items import PARTS, Group, ItemName

ANSWER = "an answer"
POSTGRES = "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write or an erasure with all its attempts; times are of the client's monotonic clock.

    Args:
        group: What was written.
        version: Which; None for an erasure.
        started: When the first attempt was sent.
        ended: When it was acknowledged; infinite if the client gave up, so that it may still
            happen, or not.
        token: The consistency token of the acknowledgement.
        attempts: How often it was sent.
    """

    group: Group
    version: int | None
    started: float
    ended: float = math.inf
    token: str = ""
    attempts: int = 1

    @property
    def acknowledged(self) -> bool:
        """Whether the client knows that it happened."""
        return self.ended < math.inf


class Held(NamedTuple):
    """A row of a store, or a hit of an answer, with the version that it shows."""

    item: ItemName
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """An answer to a question for an item.

    Args:
        asked: The item that the question was for.
        started: When it was asked.
        ended: When it was answered.
        hits: What was found.
        after: The write whose token the question carried, if the item must be found by it.
        complete: Whether the legs that must find it said that they had seen the token's write.
    """

    asked: ItemName
    started: float
    ended: float
    hits: tuple[Held, ...]
    after: Write | None
    complete: bool


Stores = Mapping[str, list[Held]]
"""The rows of each store, by its name. `POSTGRES` is the source of truth."""


class Kind(StrEnum):
    """What is wrong."""

    LOST = "lost"
    """It was acknowledged and is not there."""
    DOUBLE = "double"
    """It is there more than once."""
    STALE = "stale"
    """It is there in an older version, or was not found by a question with its token."""
    HALF_WRITTEN = "half-written"
    """The items of one write have different versions."""
    RESURRECTED = "resurrected"
    """It was erased and is there."""
    UNVERIFIED = "not verified"
    """A repeated erasure was not verified, though every store answers."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong: in which store, or in an answer, and with which item."""

    kind: Kind
    where: str
    item: ItemName
    said: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.item.tenant}/{self.item.id} in {self.where}, {self.said}"


def check(writes: Iterable[Write], reads: Iterable[Read], stores: Stores) -> list[Finding]:
    """Everything that is wrong; `stores` were read when no operation was running."""
    registers: _Registers = defaultdict(_Register)
    for write in writes:
        registers[write.group].writes.append(write)
    return [
        *(finding for read in reads for finding in _check_read(registers, read)),
        *_check_stores(registers, stores),
    ]


class _Register:
    """The operations on one group, which begins with nothing."""

    def __init__(self) -> None:
        nothing = Write(group=Group("", ""), version=None, started=-math.inf, ended=-math.inf)
        self.writes = [nothing]

    def judge(self, found: int | None, seen: float = math.inf) -> Kind | None:
        """What is wrong with a version that was found by a look that began at `seen`."""
        last = self.last(seen)
        if any(each.version == found and each.ended >= last.started for each in self.writes):
            return None
        return _differs(found, last.version)

    def is_alone(self, write: Write, until: float) -> bool:
        """Whether no other operation ran between the begin of a write and `until`."""
        return not any(
            each.ended >= write.started and each.started <= until
            for each in self.writes
            if each is not write
        )

    def last(self, before: float = math.inf) -> Write:
        """Of the operations that were acknowledged before, that which began last."""
        ended = (each for each in self.writes if each.ended < before)
        return max(ended, key=lambda each: each.started)


_Registers = defaultdict[Group, _Register]


def _check_read(registers: _Registers, read: Read) -> Iterator[Finding]:
    yield from _doubles(ANSWER, read.hits)
    for item, version in read.hits:
        kind = registers[item.group].judge(version, read.started)
        if kind is not None:
            yield Finding(kind, ANSWER, item, f"in version {version}")
    if (
        read.after is not None
        and read.complete
        and registers[read.after.group].is_alone(read.after, read.ended)
        and read.asked not in {hit.item for hit in read.hits}
    ):
        said = f"which lacks version {read.after.version} though it carried its token"
        yield Finding(Kind.STALE, ANSWER, read.asked, said)


def _check_stores(registers: _Registers, stores: Stores) -> Iterator[Finding]:
    truth = dict(stores[POSTGRES])
    known = {group.item(part) for group in registers for part in PARTS}
    for store, rows in stores.items():
        yield from _doubles(store, rows)
        held = dict(rows)
        for item in sorted(known | held.keys()):
            found, register = held.get(item), registers[item.group]
            if store == POSTGRES:
                kind, wanted = register.judge(found), register.last().version
            else:
                wanted = truth.get(item)
                kind = _differs(found, wanted)
            if kind is not None:
                yield Finding(kind, store, item, f"{_said(found)} instead of {_said(wanted)}")
    yield from _half_written(registers, truth)


def _differs(found: int | None, wanted: int | None) -> Kind | None:
    """What is wrong with a version where another one is expected."""
    if found == wanted:
        return None
    if found is None:
        return Kind.LOST
    return Kind.RESURRECTED if wanted is None else Kind.STALE


def _half_written(registers: _Registers, truth: Mapping[ItemName, int]) -> Iterator[Finding]:
    for group in registers:
        versions = {truth.get(group.item(part)) for part in PARTS}
        if len(versions) > 1:
            said = f"a group in {', '.join(sorted(map(_said, versions)))}"
            yield Finding(Kind.HALF_WRITTEN, POSTGRES, group.item(PARTS[0]), said)


def _doubles(where: str, rows: Iterable[Held]) -> Iterator[Finding]:
    for item, times in Counter(row.item for row in rows).items():
        if times > 1:
            yield Finding(Kind.DOUBLE, where, item, f"{times} times")


def _said(version: int | None) -> str:
    return "nothing" if version is None else f"version {version}"
