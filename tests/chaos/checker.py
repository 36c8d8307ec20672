"""Compares every acknowledgement with the stores and the answers. Pure.

Writes of several clients may overlap, so a group is a register: a version is right as long as no
acknowledged operation began after its own acknowledgement. An attempt that failed must not happen
later than the attempt that was acknowledged.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.chaos.history import PARTS, POSTGRES, Group, Held, ItemName, Read, Stores, Write


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


ANSWER = "an answer"


def check(writes: Iterable[Write], reads: Iterable[Read], stores: Stores) -> list[Finding]:
    """Everything that is wrong; `stores` were read when no operation was running."""
    registers = _registers(writes)
    return [
        *(finding for read in reads for finding in _check_read(registers, read)),
        *_check_stores(registers, stores),
    ]


class _Register:
    """The operations on one group, which begins with nothing."""

    def __init__(self, group: Group, writes: Sequence[Write] = ()) -> None:
        nothing = Write(group=group, version=None, started=-math.inf, ended=-math.inf)
        self._writes = [nothing, *writes]

    def judge(self, found: int | None, seen: float = math.inf) -> Kind | None:
        """What is wrong with a version that was found by a look that began at `seen`."""
        last = self._last_before(seen)
        if any(each.version == found and each.ended >= last.started for each in self._writes):
            return None
        if found is None:
            return Kind.LOST
        return Kind.RESURRECTED if last.version is None else Kind.STALE

    def expected(self) -> int | None:
        """The version of the acknowledged operation that began last."""
        return self._last_before(math.inf).version

    def is_alone(self, write: Write, until: float) -> bool:
        """Whether no other operation ran between the begin of a write and `until`."""
        return not any(
            each.ended >= write.started and each.started <= until
            for each in self._writes
            if each is not write
        )

    def _last_before(self, instant: float) -> Write:
        ended = (each for each in self._writes if each.ended < instant)
        return max(ended, key=lambda each: each.started)


_Registers = Mapping[Group, _Register]


def _registers(writes: Iterable[Write]) -> _Registers:
    by_group: defaultdict[Group, list[Write]] = defaultdict(list)
    for write in writes:
        by_group[write.group].append(write)
    return {group: _Register(group, of_group) for group, of_group in by_group.items()}


def _register(registers: _Registers, group: Group) -> _Register:
    return registers.get(group) or _Register(group)


def _check_read(registers: _Registers, read: Read) -> Iterator[Finding]:
    yield from _doubles(ANSWER, read.hits)
    for item, version in read.hits:
        kind = _register(registers, item.group).judge(version, read.started)
        if kind is not None:
            yield Finding(kind, ANSWER, item, f"in version {version}")
    if read.after is not None and read.asked is not None and _misses_its_write(registers, read):
        said = f"which lacks version {read.after.version} though it carried its token"
        yield Finding(Kind.STALE, ANSWER, read.asked, said)


def _misses_its_write(registers: _Registers, read: Read) -> bool:
    assert read.after is not None
    alone = _register(registers, read.after.group).is_alone(read.after, read.ended)
    return read.complete and alone and read.asked not in {hit.item for hit in read.hits}


def _check_stores(registers: _Registers, stores: Stores) -> Iterator[Finding]:
    truth = dict(stores[POSTGRES])
    known = {group.item(part) for group in registers for part in PARTS}
    for store, rows in stores.items():
        yield from _doubles(store, rows)
        held = dict(rows)
        for item in sorted(known | held.keys()):
            found, register = held.get(item), _register(registers, item.group)
            if store == POSTGRES:
                kind, wanted = register.judge(found), register.expected()
            else:
                wanted = truth.get(item)
                kind = _differs(found, wanted)
            if kind is not None:
                yield Finding(kind, store, item, f"{_said(found)} instead of {_said(wanted)}")
    yield from _half_written(registers, truth)


def _differs(found: int | None, wanted: int | None) -> Kind | None:
    """What is wrong with a projection compared with PostgreSQL."""
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
