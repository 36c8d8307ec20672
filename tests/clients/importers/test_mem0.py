from __future__ import annotations

from pathlib import Path

from tests.clients.importers.importing import EXPORTS, at, imported, written
from trivium import Fact, Segment
from trivium_importers.translation import Mapped

FIRST = "00000000-0000-4000-8000-000000000065"
SECOND = "00000000-0000-4000-8000-000000000067"


def test_memory_becomes_a_segment_with_its_owner_as_labels() -> None:
    found = imported("mem0", EXPORTS / "mem0.json")

    assert found.items == [
        Segment(
            id=FIRST,
            text="Nora moved to Lisbon in May.",
            kind="memory",
            speaker="nora",
            session="call-1",
            event_time=at(2026, 5, 20, 9, 30),
            labels={
                "user_id": "nora",
                "agent_id": "concierge",
                "role": "user",
                "source": "phone",
                "confidence": "0.9",
            },
        ),
        Segment(
            id=SECOND,
            text="The wedding was moved to the ninth of November.",
            kind="memory",
            event_time=at(2026, 5, 21, 10),
            labels={
                "updated_at": "2026-06-01T08:00:00+00:00",
                "user_id": "nora",
                "agent_id": "concierge",
                "role": "user",
            },
        ),
    ]
    assert found.scopes == ["nora", "nora"]
    assert found.mapped == {Mapped("memory", "segment"): 2}
    assert found.problems == []


def test_unmapped_fields_of_memory_are_reported() -> None:
    found = imported("mem0", EXPORTS / "mem0.json")

    assert found.unmapped == {
        "memory.metadata.tags": 1,
        "memory.hash": 2,
        "memory.expiration_date": 1,
    }


def test_relation_becomes_fact_and_next_page_is_reported(tmp_path: Path) -> None:
    relation = {"source": "nora", "relationship": "lives_in", "target": "lisbon"}
    page = {"results": [], "relations": [relation, {"source": "nora"}], "next": "page 2"}

    found = imported("mem0", written(tmp_path, page))

    (fact,) = found.items
    assert isinstance(fact, Fact)
    assert (fact.subject, fact.relation, fact.object) == ("nora", "lives_in", "lisbon")
    assert found.problems == ["export.jsonl:1: relations[1]: 'relationship' is missing or blank"]
    assert found.unmapped == {"page.next": 1}


def test_categories_become_keywords(tmp_path: Path) -> None:
    memory = {"id": "m1", "memory": "Sails.", "categories": ["sport", "sport", "x" * 300]}

    found = imported("mem0", written(tmp_path, memory))

    assert found.segment("m1").keywords == ("sport",)
    assert found.unmapped == {"memory.categories": 1}
