from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.clients.importers.importing import EXPORTS, at, imported, written
from trivium import Fact, Segment
from trivium_importers.translation import Mapped

WRITTEN = at(2026, 6, 2, 12)


def id_(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def test_episodes_and_summaries_become_segments() -> None:
    found = imported("graphiti", EXPORTS / "graphiti.jsonl")

    group = {"group_id": "nora"}
    assert [each for each in found.items if isinstance(each, Segment)] == [
        Segment(
            id=id_(1),
            text="I left Acme in March and work for Umbra now.",
            title="call-1 turn 1",
            kind="turn",
            speaker="Nora",
            session="call-1",
            event_time=at(2026, 6, 1, 9),
            labels={**group, "source_description": "phone call"},
            entities=("Nora",),
        ),
        Segment(
            id=id_(2),
            text="Umbra has its seat in Porto.",
            title="letter",
            kind="note",
            event_time=at(2026, 6, 1, 10),
            labels={**group, "channel": "post"},
            entities=("Umbra",),
        ),
        Segment(
            id=id_(3),
            text="Nora left Acme in March 2026 and works for Umbra.",
            title="Nora",
            kind="person",
            event_time=WRITTEN,
            labels={**group, "age": "34"},
            entity="Nora",
        ),
        Segment(
            id=id_(6),
            text="Acme and Umbra.",
            title="Nora's work",
            kind="community",
            event_time=WRITTEN,
            labels=group,
        ),
    ]
    assert set(found.scopes) == {"nora"}
    assert found.problems == []


def test_edge_becomes_a_fact_with_its_validity_and_evidence() -> None:
    found = imported("graphiti", EXPORTS / "graphiti.jsonl")

    former = Fact(
        id=id_(11),
        subject="Nora",
        relation="WORKS_AT",
        object="Acme",
        sentence="Nora works at Acme.",
        valid_from=at(2024, 1, 15),
        valid_to=at(2026, 3, 1),
        recorded_at=WRITTEN,
        evidence=(id_(1),),
    )
    assert found.fact(id_(11)) == former
    assert found.fact(id_(12)) == replace(
        former,
        id=id_(12),
        object="Umbra",
        sentence="Nora works for Umbra.",
        valid_from=at(2026, 3, 1),
        valid_to=None,
    )


def test_edge_that_expired_without_an_end_is_retracted() -> None:
    found = imported("graphiti", EXPORTS / "graphiti.jsonl")

    assert found.fact(id_(13)).retracted_at == at(2026, 6, 3)
    assert found.fact(id_(11)).retracted_at is None


def test_unmapped_fields_of_graph_are_reported() -> None:
    found = imported("graphiti", EXPORTS / "graphiti.jsonl")

    assert found.unmapped == {
        "link.": 1,
        "episode.created_at": 2,
        "node.attributes.skills": 1,
        "node.name_embedding": 1,
        "node.created_at": 2,
        "saga.created_at": 1,
        "saga.first_episode_uuid": 1,
        "edge.fact_embedding": 1,
        "edge.expired_at": 1,
        "edge.reference_time": 1,
        "edge.attributes": 1,
    }
    assert found.mapped[Mapped("link", "mention")] == 2
    assert found.mapped[Mapped("link", "session")] == 1


def test_records_of_zep_name_their_nodes_themselves() -> None:
    found = imported("zep", EXPORTS / "zep.jsonl")

    owner = id_(41)
    assert found.items == [
        Segment(
            id=id_(21),
            text="I sold the boat.",
            kind="turn",
            speaker="Nora",
            session=id_(31),
            event_time=at(2026, 6, 1, 9),
            labels={"user_uuid": owner, "role": "user", "channel": "phone"},
        ),
        Segment(
            id=id_(22),
            text="A boat that Nora sold.",
            title="boat",
            kind="object",
            labels={"user_uuid": owner},
            entity="boat",
        ),
        Fact(
            id=id_(23),
            subject="Nora",
            relation="OWNS",
            object="boat",
            sentence="Nora owns a boat.",
            valid_to=at(2026, 6, 1, 9),
            recorded_at=WRITTEN,
            evidence=(id_(21),),
        ),
    ]
    assert found.scopes == [owner] * 3


def test_document_with_lists_is_read_like_json_lines(tmp_path: Path) -> None:
    lines = (EXPORTS / "graphiti.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    document = {
        "nodes": [each for each in records if "source_node_uuid" not in each],
        "edges": [each for each in records if "source_node_uuid" in each],
        "exported_by": "a script",
    }

    found = imported("graphiti", written(tmp_path, json.dumps(document, indent=1)))

    assert found.items == imported("graphiti", EXPORTS / "graphiti.jsonl").items
    assert found.unmapped["document.exported_by"] == 1


def test_edge_to_a_node_that_is_missing_is_named(tmp_path: Path) -> None:
    ends = {"source_node_uuid": "n1", "target_node_uuid": "n2"}
    edge = {"uuid": "e1", "name": "OWNS", "fact": "A fact.", **ends}

    found = imported("graphiti", written(tmp_path, edge))

    assert found.items == []
    assert found.problems == [
        "export.jsonl:1: no node of these files is its source_node_uuid, 'n1'"
    ]


def test_fact_that_ends_before_it_begins_is_named(tmp_path: Path) -> None:
    ends = {
        f"{end}_node_{name}": f"{end} {name}"
        for end in ("source", "target")
        for name in ("uuid", "name")
    }
    times = {"valid_at": "2026-02-01T00:00:00Z", "invalid_at": "2026-01-01T00:00:00Z"}
    edge = {"uuid": "e1", "name": "OWNS", "fact": "A fact.", **ends, **times}

    found = imported("graphiti", written(tmp_path, edge))

    assert found.items == []
    assert "ends at 2026-01-01" in found.problems[0]


def test_episode_of_several_turns_is_one_text(tmp_path: Path) -> None:
    content = "user: When is it?\nassistant: In May."
    episode = {"uuid": "e1", "source": "message", "content": content, "name": "call"}

    segment = imported("graphiti", written(tmp_path, episode)).segment("e1")

    assert (segment.speaker, segment.text) == ("", content)


def test_surplus_entities_and_evidence_are_reported(tmp_path: Path) -> None:
    episode = {"uuid": "e", "name": "", "content": "Many were there."}
    nodes = [{"uuid": f"n{number}", "name": f"Guest {number}"} for number in range(70)]
    links = [{"source_node_uuid": "e", "target_node_uuid": node["uuid"]} for node in nodes]
    ends = {"source_node_uuid": "n1", "target_node_uuid": "n2"}
    episodes = [f"e{number}" for number in range(70)]
    edge = {"uuid": "f", "name": "KNOWS", "fact": "They met.", "episodes": episodes, **ends}

    found = imported("graphiti", written(tmp_path, episode, *nodes, *links, edge))

    assert len(found.segment("e").entities) == len(found.fact("f").evidence) == 64
    assert found.unmapped == {"episode.mentions": 1, "edge.episodes": 1}
