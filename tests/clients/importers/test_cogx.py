from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.clients.importers.importing import EXPORTS, at, imported, written
from trivium import Fact, Segment
from trivium_importers.translation import Mapped

NORA = {"user_id": "nora", "external_system": "unknown"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A copy of the archive, to be changed."""
    return Path(shutil.copytree(EXPORTS / "cogx", tmp_path / "cogx"))


def test_texts_turns_and_memories_become_segments() -> None:
    found = imported("cogx", EXPORTS / "cogx")

    assert found.segment("doc-1") == Segment(
        id="doc-1",
        text="The boiler was serviced in April.",
        title="letter.pdf",
        kind="note",
        session="call-1",
        event_time=at(2026, 6, 1, 9),
        labels={**NORA, "page": "3"},
        entities=("Umbra",),
    )
    assert found.segment("episode-1/0") == Segment(
        id="episode-1/0",
        text="When is the wedding?",
        speaker="user",
        session="call-1",
        event_time=at(2026, 6, 1, 9),
        labels=NORA,
    )
    assert found.segment("episode-1/1").event_time == at(2026, 6, 1, 10)
    memory = found.segment("memory-1")
    assert (memory.kind, memory.keywords) == ("memory", ("travel",))
    assert memory.labels == {**NORA, "mem0_metadata.source": "phone"}
    block = found.segment("block-1")
    assert (block.kind, block.title, block.text) == ("block", "human", "Lives in Lisbon.")
    assert found.problems == []


def test_description_of_an_entity_becomes_its_segment() -> None:
    found = imported("cogx", EXPORTS / "cogx")

    assert found.segment("entity-1") == Segment(
        id="entity-1",
        text="Nora works for Umbra.",
        title="Nora",
        kind="person",
        entity="Nora",
        keywords=("Nora Lind",),
        labels={"external_system": "unknown", "age": "34"},
    )


def test_facts_are_about_the_names_of_entities_and_nodes() -> None:
    found = imported("cogx", EXPORTS / "cogx")

    assert found.fact("fact-1") == Fact(
        id="fact-1",
        subject="Nora",
        relation="works_at",
        object="Umbra",
        sentence="Nora works for Umbra.",
        valid_from=at(2026, 3, 1),
        recorded_at=at(2026, 6, 1, 9),
        evidence=("doc-1",),
        weight=0.9,
    )
    other = found.fact("fact-2")
    assert (other.object, other.valid_to) == ("person", at(2027, 1, 1))
    assert len([each for each in found.items if isinstance(each, Fact)]) == 2
    assert found.mapped[Mapped("fact", "mention")] == 1


def test_unmapped_fields_of_archive_are_reported() -> None:
    found = imported("cogx", EXPORTS / "cogx")

    assert found.unmapped == {
        "fact.": 1,
        "fact.external_system": 2,
        "document.mime_type": 1,
        "entity.external_system": 1,
        "episode.title": 1,
        "memory_block.limit": 1,
        "raw_node.": 2,
    }


def test_evidence_in_an_episode_is_all_of_its_turns(archive: Path) -> None:
    fact = {"kind": "fact", "external_id": "f", "subject_ref": "Nora", "predicate": "asks"}
    line = {**fact, "object_ref": "when", "provenance": ["episode-1"]}
    written(archive, line, name="facts.jsonl")

    found = imported("cogx", archive)

    assert found.fact("f").evidence == ("episode-1/0", "episode-1/1")


def test_missing_records_are_noticed_by_the_counts_of_the_manifest(archive: Path) -> None:
    (archive / "facts.jsonl").unlink()

    found = imported("cogx", archive)

    assert found.problems == ["manifest.json:1: counts 4 records of kind fact; the files have 0"]


def test_archive_of_another_version_is_named(archive: Path) -> None:
    manifest = json.loads((archive / "manifest.json").read_text())
    written(archive, {**manifest, "cogx_version": "1.0"}, name="manifest.json")

    assert imported("cogx", archive).problems == ["manifest.json:1: is of version 1.0; known is 0"]


def test_blank_turn_is_left_out(archive: Path) -> None:
    turns = [{"role": "user", "content": " "}, {"role": "user", "content": "Hello."}]
    episode = {"kind": "episode", "external_id": "e", "turns": turns}
    written(archive, episode, name="episodes.jsonl")

    found = imported("cogx", archive)

    assert found.segment("e/1").text == "Hello."
    assert found.segment("e/1").session == "e"
    assert found.unmapped["episode.turns.content"] == 1
