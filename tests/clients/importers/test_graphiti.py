from __future__ import annotations

import json
from pathlib import Path

from tests.clients.importers.importing import EXPORTS, imported, written

EDGE = {"uuid": "e1", "name": "OWNS", "fact": "A fact."}
ENDS = {"source_node_uuid": "n1", "target_node_uuid": "n2"}


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
    found = imported("graphiti", written(tmp_path, {**EDGE, **ENDS}))

    assert found.items == []
    (problem,) = found.problems
    assert problem == "export.jsonl:1: no node of these files is its source_node_uuid, 'n1'"


def test_fact_that_ends_before_it_begins_is_named(tmp_path: Path) -> None:
    names = {"source_node_name": "Nora", "target_node_name": "boat"}
    times = {"valid_at": "2026-02-01T00:00:00Z", "invalid_at": "2026-01-01T00:00:00Z"}

    found = imported("graphiti", written(tmp_path, {**EDGE, **ENDS, **names, **times}))

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
    edge = {**EDGE, **ENDS, "episodes": [f"e{number}" for number in range(70)]}

    found = imported("graphiti", written(tmp_path, episode, *nodes, *links, edge))

    assert len(found.segment("e").entities) == len(found.fact("e1").evidence) == 64
    assert found.unmapped == {"episode.mentions": 1, "edge.episodes": 1}
