from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import pytest

from serving.adapters.postgres.tables.content import content_hash, text_hash
from serving.domain.items.validity import Closing
from tests.support.builders import NOON, days, fact, segment

SEGMENT = segment("a", title="Trip", speaker="Ann", labels={"p": "1", "q": "2"}, entities=("Goa",))
FACT = fact("f", "Ann", "likes", "Goa", evidence=("a", "b"), valid_from=NOON)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "b"},
        {"text": "We flew to Goa."},
        {"title": ""},
        {"kind": "note"},
        {"speaker": "Bob"},
        {"session": "s"},
        {"event_time": NOON + days(1)},
        {"importance": 0.6},
        {"sensitive": True},
        {"labels": {"p": "1"}},
        {"entities": ()},
        {"entity": "Goa"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_content_hash_covers_every_field_of_segments(change: dict[str, Any]) -> None:
    assert content_hash(replace(SEGMENT, **change), "english") != content_hash(SEGMENT, "english")


@pytest.mark.parametrize(
    "change",
    [
        {"subject": "Bob"},
        {"relation": "hates"},
        {"object": "Rome"},
        {"sentence": "Ann likes Goa."},
        {"valid_from": None},
        {"valid_to": NOON + days(1)},
        {"recorded_at": NOON + days(1)},
        {"retracted_at": NOON},
        {"evidence": ("b", "a")},
        {"weight": 0.5},
        {"sensitive": True},
        {"closes": ("g",)},
        {"single_valued": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_content_hash_covers_every_field_of_facts(change: dict[str, Any]) -> None:
    assert content_hash(replace(FACT, **change), "english") != content_hash(FACT, "english")


def test_the_text_search_configuration_counts() -> None:
    assert content_hash(SEGMENT, "english") != content_hash(SEGMENT, "german")


def test_a_segment_and_a_fact_of_one_id_differ() -> None:
    assert content_hash(segment("a"), "english") != content_hash(
        fact("a", "x", "y", "z"), "english"
    )


def test_content_hash_ignores_fields_of_the_server() -> None:
    stored = replace(SEGMENT, created_at=NOON, updated_at=NOON)

    assert content_hash(stored, "english") == content_hash(SEGMENT, "english")


def test_fact_without_closings_keeps_its_former_hash() -> None:
    stored = "7a7dbe2da3730bb6d697dc19fd08f65a1ffc0fb74ba7a06c68ce6709e21c4e3f"

    assert content_hash(FACT, "english").hex() == stored


def test_content_hash_ignores_the_end_of_facts() -> None:
    closed = replace(FACT, closings=(Closing("g", NOON, NOON),))

    assert content_hash(closed, "english") == content_hash(FACT, "english")


def test_neither_the_order_of_labels_nor_the_time_zone_counts() -> None:
    east = timezone(timedelta(hours=5))
    same = replace(SEGMENT, labels={"q": "2", "p": "1"}, event_time=NOON.astimezone(east))

    assert content_hash(same, "english") == content_hash(SEGMENT, "english")


def test_extracted_entities_do_not_count() -> None:
    bare = replace(SEGMENT, entities=())

    assert content_hash(SEGMENT, "english", extracted=True) == content_hash(bare, "english")


@pytest.mark.parametrize("item", [SEGMENT, FACT], ids=["segment", "fact"])
def test_a_time_that_the_service_set_does_not_count(item: Any) -> None:
    field = "event_time" if item is SEGMENT else "recorded_at"
    later = replace(item, **{field: NOON + days(1)})

    assert content_hash(later, "english", undated=True) == content_hash(
        item, "english", undated=True
    )


def test_text_hash_covers_only_title_speaker_and_text() -> None:
    others = [
        replace(SEGMENT, title="x"),
        replace(SEGMENT, speaker="x"),
        replace(SEGMENT, text="x"),
    ]

    assert text_hash(replace(SEGMENT, importance=1.0)) == text_hash(SEGMENT)
    assert len({text_hash(item) for item in (SEGMENT, *others)}) == 4
