from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trivium.files.reading import read_items
from trivium.files.records import Problem
from trivium.files.writing import to_line
from trivium.values import Fact, Item, Segment

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
SEGMENT = Segment(
    id="s",
    text='Nora said:\n"Zoë\u2028sails"\t…',
    title="Sailing",
    kind="note",
    speaker="Nora",
    session="monday",
    event_time=NOON,
    importance=0.0,
    sensitive=True,
    labels={"topic": "boats", "empty": ""},
    entities=("Zoë", "Goa"),
    entity="Zoë",
    keywords=("yacht",),
    created_at=NOON,
    expires_at=NOON,
)
FACT = Fact(
    id="f",
    subject="Zoë",
    relation="mentions often",
    object="Goa",
    sentence="Zoë often mentions Goa.",
    valid_from=NOON,
    valid_to=NOON,
    recorded_at=NOON,
    retracted_at=NOON,
    evidence=("s", "t"),
    weight=0.5,
    sensitive=True,
    closes=("g",),
    single_valued=True,
    expires_at=NOON,
)
BARE = (
    Segment(id="s", text="We sailed.", event_time=NOON),
    Fact(id="f", subject="Zoë", relation="likes", object="Goa"),
)


@pytest.fixture
def read_back(tmp_path: Path) -> Callable[[Item], list[Item]]:
    def read_back(item: Item) -> list[Item]:
        file = tmp_path / "items.jsonl"
        file.write_text(to_line(item), encoding="utf-8")
        problems: list[Problem] = []
        found = [each.item for each in read_items([str(file)], problems.append)]
        assert problems == []
        return found

    return read_back


@pytest.mark.parametrize("item", [SEGMENT, FACT, *BARE], ids=["segment", "fact", "bare", "bare"])
def test_written_items_are_read_unchanged(
    read_back: Callable[[Item], list[Item]], item: Item
) -> None:
    assert read_back(item) == [item]


def test_examples_have_every_field_of_a_caller() -> None:
    by_server = {"updated_at", "closings", "mentions_from", "mentions_to", "version"}
    never_read = {"embedding"}
    of_segments_only = {"created_at"}
    examples: list[tuple[Item, Item]] = [(SEGMENT, BARE[0]), (FACT, BARE[1])]
    for given, bare in examples:
        names = [each.name for each in fields(given)]
        same = {name for name in names if getattr(given, name) == getattr(bare, name)}
        if isinstance(given, Fact):
            same -= of_segments_only
        assert same - by_server - never_read <= {"id", "event_time", "subject", "object"}


def test_a_sentence_that_the_service_made_is_left_to_it(
    read_back: Callable[[Item], list[Item]],
) -> None:
    bare = BARE[1]
    assert isinstance(bare, Fact)
    assert read_back(replace(bare, sentence="Zoë likes Goa")) == [bare]

    observed = replace(bare, relation="observation", sentence="Zoë observation Goa")
    assert read_back(observed) == [observed]
