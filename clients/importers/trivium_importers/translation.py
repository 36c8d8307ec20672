"""Turns records into items, and notes what of them no item has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from trivium.files.reading import Found
from trivium.files.records import Place, Problem, Record
from trivium.values import Item, Segment
from trivium_importers.limits import check_limits

SENSITIVE = "sensitive"
"""The label that makes a segment sensitive, in any case of its letters, unless it says no."""
NO = {"false", "no", "off", "0", "0.0", "f", "n"}


def says_nothing(value: object) -> bool:
    """Whether a value need not be reported: null, false, or empty."""
    return value is None or value is False or value in ("", [], {})


class Fields(Mapping[str, object]):
    """The fields of a record, which remember those that were not read."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields
        self._unread = set(fields)

    def __getitem__(self, name: str) -> object:
        self._unread.discard(name)
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def unread(self) -> Iterator[tuple[str, object]]:
        """The fields that were not read, with their values."""
        return ((name, value) for name, value in self._fields.items() if name in self._unread)


@dataclass(frozen=True, slots=True)
class _Remaining:
    """The fields of one record that are not mapped, over all its objects."""

    parts: list[tuple[str, Fields]] = field(default_factory=list)
    left_out: dict[str, object] = field(default_factory=dict)
    times_without_zone: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[str, object]]:
        yield from self.left_out.items()
        for prefix, fields in self.parts:
            yield from ((f"{prefix}{name}", value) for name, value in fields.unread())


@dataclass(frozen=True, slots=True)
class Exported(Record):
    """A record of an export. A field that is read counts as mapped, unless it is left out."""

    fields: Fields
    remaining: _Remaining
    prefix: str = ""

    @classmethod
    def of(
        cls, place: Place, given: Mapping[str, object], remaining: _Remaining, prefix: str = ""
    ) -> Exported:
        """An object whose unread fields remain."""
        fields = Fields(given)
        remaining.parts.append((prefix, fields))
        return cls(place, fields, remaining, prefix)

    def within(self, name: str) -> Exported:
        """The object in the field `name`, without fields if there is none.

        Raises:
            ValueError: It is not an object.
        """
        value = self.fields.get(name)
        if value is not None and not isinstance(value, dict):
            raise ValueError(f"{name!r} must be an object, got {value!r}")
        return Exported.of(self.place, value or {}, self.remaining, f"{self.prefix}{name}.")

    def each(self, name: str) -> list[Exported]:
        """The objects of the list `name`.

        Raises:
            ValueError: It is not a list of objects.
        """
        listed = self.fields.get(name)
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            raise ValueError(f"{name!r} must be a list of objects, got {listed!r}")
        prefix = f"{self.prefix}{name}."
        return [Exported.of(self.place, each, self.remaining, prefix) for each in listed]

    def time(self, name: str) -> datetime | None:
        """An ISO 8601 time; one that has no time zone is read as UTC, and counted."""
        instant = Record.time(self, name)  # super() needs the class before `slots` remade it
        if instant is not None and datetime.fromisoformat(self.string(name)).tzinfo is None:
            self.remaining.times_without_zone.append(name)
        return instant

    def rest(self) -> list[str]:
        """The names of the fields that were not read."""
        return [name for name, _ in self.fields.unread()]

    def leave_out(self, name: str, value: object) -> None:
        """Notes that a value that was read becomes no part of an item."""
        self.remaining.left_out[f"{self.prefix}{name}"] = value

    def first(self, *names: str) -> str:
        """The string in the first of the fields that has one."""
        return next(filter(None, (self.string(name) for name in names)), "")

    def found(self, item: Item, scope: str = "") -> Found[Item]:
        """An item of this record, and whose it is."""
        if isinstance(item, Segment) and any(map(_is_sensitive, item.labels.items())):
            item = replace(item, sensitive=True)
        return Found(item, scope, self.place)


def _is_sensitive(label: tuple[str, str]) -> bool:
    key, value = (each.strip().casefold() for each in label)
    return key == SENSITIVE and value not in NO


class Mapped(NamedTuple):
    """A kind of record, and the kind of item that it became."""

    kind: str
    item: str


@dataclass(slots=True)
class Unmapped:
    """A field of a kind of record that no item has; without a name, the whole record."""

    kind: str
    field: str
    place: Place
    example: object
    count: int = 0


Translate = Callable[[Exported], Iterable[Found[Item]]]
"""Returns the items of a record, or raises `ValueError` if it is invalid."""


class Translation:
    """The outcome of an import, except its items."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.mapped: Counter[Mapped] = Counter()
        self.times_read_as_utc = 0
        self._unmapped: dict[tuple[str, str], Unmapped] = {}

    @property
    def unmapped(self) -> list[Unmapped]:
        """The fields that no item has, each with its first example."""
        return list(self._unmapped.values())

    def items(self, kind: str, record: Record, translate: Translate) -> list[Found[Item]]:
        """The items of a record; none if it is invalid, which is then a problem."""
        remaining = _Remaining()
        try:
            translated = list(translate(Exported.of(record.place, record.fields, remaining)))
        except ValueError as error:
            self.problems.append(Problem(record.place, str(error)))
            return []
        self.times_read_as_utc += len(remaining.times_without_zone)
        for name, value in remaining:
            self.leave_out(kind, record.place, value, name)
        found = [each for each in translated if self._fits(each)]
        self.mapped.update(Mapped(kind, _kind_of(each.item)) for each in found)
        return found

    def _fits(self, found: Found[Item]) -> bool:
        try:
            check_limits(found.item)
        except ValueError as error:
            self.problems.append(Problem(found.place, str(error)))
            return False
        return True

    def leave_out(self, kind: str, place: Place, value: object, name: str = "") -> None:
        """Notes a value, or without a name a whole record, that becomes no part of an item."""
        if not says_nothing(value):
            first = Unmapped(kind, name, place, value)
            self._unmapped.setdefault((kind, name), first).count += 1


def _kind_of(item: Item) -> str:
    return "segment" if isinstance(item, Segment) else "fact"
