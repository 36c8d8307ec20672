from __future__ import annotations

from pathlib import Path

from tests.clients.importers.importing import imported, written
from trivium import Fact


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
