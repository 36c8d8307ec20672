"""A service that reads facts out of turns by rules, as a user turns it on."""

from __future__ import annotations

import pytest

from tests.fixtures.service import started_service
from tests.support.waiting import until
from trivium import Segment

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.ray, pytest.mark.model]

TURNS = [
    Segment(id="t1", speaker="Mara", session="s", text="I live in Lisbon."),
    Segment(id="t2", speaker="Mara", session="s", text="My PIN is a secret.", sensitive=True),
    Segment(id="t3", speaker="Mara", session="s", text="I have a dog called Rex."),
]


def test_turns_become_facts_that_are_found_and_named_in_the_stats(neo4j_uri: str) -> None:
    settings = {"TRIVIUM_EXTRACTION__BY": "rules", "TRIVIUM_NEO4J__URI": neo4j_uri}
    with (
        started_service("single", **settings) as service,
        service.client("talk") as memory,
    ):
        memory.ingest(TURNS)
        until(lambda: len(list(memory.list_facts())) == 2)

        facts = {fact.sentence: fact for fact in memory.list_facts()}
        assert set(facts) == {"Mara lives in Lisbon.", "Mara has a dog called Rex."}
        assert tuple(facts["Mara lives in Lisbon."].evidence) == ("t1",)
        assert all(fact.id.startswith("extracted:") for fact in facts.values())
        until(lambda: "extraction" in {each.projection for each in memory.stats().projections})
        assert not memory.stats().dead_letters
