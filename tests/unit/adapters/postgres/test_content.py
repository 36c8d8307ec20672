from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import pytest

from serving.adapters.postgres.tables.content import content_hash, text_hash
from serving.domain.items.records import Item
from serving.domain.items.validity import Closing
from tests.support.builders import NOON, days, fact, segment

SEGMENT = segment("a", title="Trip", speaker="Ann", labels={"p": "1", "q": "2"}, entities=("Goa",))
FACT = fact("f", "Ann", "likes", "Goa", evidence=("a", "b"), valid_from=NOON)


SEGMENT_CHANGES: dict[str, Any] = {
    "id": "b",
    "text": "We flew to Goa.",
    "title": "",
    "kind": "note",
    "speaker": "Bob",
    "session": "s",
    "event_time": NOON + days(1),
    "importance": 0.6,
    "sensitive": True,
    "labels": {"p": "1"},
    "entities": (),
    "entity": "Goa",
}
FACT_CHANGES: dict[str, Any] = {
    "subject": "Bob",
    "relation": "hates",
    "object": "Rome",
    "sentence": "Ann likes Goa.",
    "valid_from": None,
    "valid_to": NOON + days(1),
    "recorded_at": NOON + days(1),
    "retracted_at": NOON,
    "evidence": ("b", "a"),
    "weight": 0.5,
    "sensitive": True,
    "closes": ("g",),
    "single_valued": True,
}


def hashed(item: Item, config: str = "english", **options: bool) -> bytes:
    return content_hash(item, config, **options)


@pytest.mark.parametrize(
    ("item", "field", "value"),
    [
        *((SEGMENT, field, value) for field, value in SEGMENT_CHANGES.items()),
        *((FACT, field, value) for field, value in FACT_CHANGES.items()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_content_hash_covers_every_field(item: Item, field: str, value: Any) -> None:
    assert hashed(replace(item, **{field: value})) != hashed(item)


def test_the_text_search_configuration_counts() -> None:
    assert hashed(SEGMENT) != hashed(SEGMENT, "german")


def test_a_segment_and_a_fact_of_one_id_differ() -> None:
    assert hashed(segment("a")) != hashed(fact("a", "x", "y", "z"))


def test_content_hash_ignores_fields_of_the_server() -> None:
    stored = replace(SEGMENT, created_at=NOON, updated_at=NOON)

    assert hashed(stored) == hashed(SEGMENT)


def test_fact_without_closings_keeps_its_former_hash() -> None:
    stored = "7a7dbe2da3730bb6d697dc19fd08f65a1ffc0fb74ba7a06c68ce6709e21c4e3f"

    assert hashed(FACT).hex() == stored


def test_content_hash_ignores_the_end_of_facts() -> None:
    closed = replace(FACT, closings=(Closing("g", NOON, NOON),))

    assert hashed(closed) == hashed(FACT)


def test_neither_the_order_of_labels_nor_the_time_zone_counts() -> None:
    east = timezone(timedelta(hours=5))
    same = replace(SEGMENT, labels={"q": "2", "p": "1"}, event_time=NOON.astimezone(east))

    assert hashed(same) == hashed(SEGMENT)


def test_extracted_entities_do_not_count() -> None:
    bare = replace(SEGMENT, entities=())

    assert hashed(SEGMENT, extracted=True) == hashed(bare)


@pytest.mark.parametrize("item", [SEGMENT, FACT], ids=["segment", "fact"])
def test_a_time_that_the_service_set_does_not_count(item: Any) -> None:
    field = "event_time" if item is SEGMENT else "recorded_at"
    later = replace(item, **{field: NOON + days(1)})

    assert hashed(later, undated=True) == hashed(item, undated=True)


def test_text_hash_covers_only_title_speaker_and_text() -> None:
    others = [replace(SEGMENT, title="x"), replace(SEGMENT, speaker="x"), replace(SEGMENT, text="")]

    assert text_hash(replace(SEGMENT, importance=1.0)) == text_hash(SEGMENT)
    assert len({text_hash(item) for item in (SEGMENT, *others)}) == 4
