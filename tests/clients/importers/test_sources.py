"""What each source brings, record by record; `test_exported.py` has whole exports."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.clients.importers.importing import EXPORTS, imported, written
from trivium import Fact, Segment


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXPORTS / "cogx", tmp_path / "cogx"))


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


def test_ids_come_from_text_not_from_numbers(tmp_path: Path) -> None:
    file = json.loads((EXPORTS / "letta.af").read_text())
    for number, message in enumerate(file["agents"][0]["messages"]):
        message["id"] = f"message-{number + 100}"
    for old, new in (("block-0", "block-7"), ("block-1", "block-8")):
        text = json.dumps(file).replace(old, new)
        file = json.loads(text)

    again = imported("letta", written(tmp_path, text, name="again.af"))

    assert again.items == imported("letta", EXPORTS / "letta.af").items


def test_two_agents_share_no_ids(tmp_path: Path) -> None:
    text = (EXPORTS / "letta.af").read_text()
    other = written(tmp_path, text.replace('"Concierge"', '"Butler"'), name="other.af")

    ids = [each.id for each in imported("letta", EXPORTS / "letta.af", other).items]

    assert len(set(ids)) == len(ids) == 10


def test_deleted_passage_is_left_out(tmp_path: Path) -> None:
    passage = {"id": "p1", "text": "Gone.", "is_deleted": True}

    found = imported("letta", written(tmp_path, passage))

    assert found.items == []
    assert found.unmapped["passage.is_deleted"] == 1


def test_part_that_is_no_text_is_reported(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "Look."}, {"type": "image", "source": {}}]
    message = {"message_type": "user_message", "id": "m1", "content": parts}

    found = imported("letta", written(tmp_path, message))

    assert [each.text for each in found.items if isinstance(each, Segment)] == ["Look."]
    assert found.unmapped["message.content"] == 1


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


def test_the_key_of_the_text_can_be_named(tmp_path: Path) -> None:
    points = written(tmp_path, {"id": 1, "payload": {"text": "short", "body": "long"}})

    found = imported("qdrant", points, text_key="body")

    segment = found.segment("1")
    assert (segment.text, segment.labels) == ("long", {"text": "short"})


def test_api_response_is_unwrapped_and_next_page_reported(tmp_path: Path) -> None:
    point = {"id": 1, "payload": {"text": "We sailed."}}
    response = {"result": {"points": [point, "no point"], "next_page_offset": 2}, "status": "ok"}

    found = imported("qdrant", written(tmp_path, response))

    assert found.segment("1").text == "We sailed."
    assert found.unmapped == {"page.next_page_offset": 1}
    assert found.problems == ["export.jsonl:1: points[1]: is not a JSON object"]


NAMES = {"source_node_name": "Nora", "target_node_name": "boat"}
TIMES = {"valid_at": "2026-02-01T00:00:00Z", "invalid_at": "2026-01-01T00:00:00Z"}
POINT = {"payload": {"text": "We sailed."}}


@pytest.mark.parametrize(
    ("source", "record", "problem"),
    [
        ("graphiti", {**EDGE, **ENDS}, "no node of these files is its source_node_uuid, 'n1'"),
        ("graphiti", {**EDGE, **ENDS, **NAMES, **TIMES}, "ends at 2026-01-01"),
        (
            "letta",
            {"message_type": "user_message", "id": "m1", "content": 7},
            "'content' must be a string or a list of parts, got 7",
        ),
        (
            "letta",
            {"name": "Concierge", "messages": []},
            "is an agent file of the legacy format; export it with use_legacy_format=False",
        ),
        ("qdrant", {"id": None, **POINT}, "'id' must be a number or a string, got None"),
        ("qdrant", {"id": True, **POINT}, "'id' must be a number or a string, got True"),
        ("qdrant", {"id": [1], **POINT}, "'id' must be a number or a string, got [1]"),
    ],
)
def test_unusable_record_is_named(
    tmp_path: Path, source: str, record: object, problem: str
) -> None:
    found = imported(source, written(tmp_path, record))

    assert found.items == []
    [said] = found.problems
    assert said.startswith(f"export.jsonl:1: {problem}")


@pytest.mark.parametrize("time", [1779269400, "yesterday"])
def test_invalid_time_is_reported(tmp_path: Path, time: object) -> None:
    point = {"id": 1, "payload": {"text": "We sailed.", "timestamp": time}}

    found = imported("qdrant", written(tmp_path, point))

    assert found.segment("1").event_time is None
    assert found.unmapped == {"point.payload.timestamp": 1}


MARKDOWN = """# Trips

We sailed to Goa,
in May.

## Food ##
```
# no heading

fish
```
Nora eats no meat.
# Home
"""
CSV = """id,speaker,message,created_at,trip
t1,Nora,"We sailed,
in May.",2026-05-01T12:00:00Z,goa
,Ann,To whom?,,
t3,Nora
t4,Nora,a,b,c,d
"""


def segments(source: str, file: Path, text: str, text_key: str = "") -> list[Segment]:
    file.write_text(text)
    return [
        each
        for each in imported(source, file, text_key=text_key).items
        if isinstance(each, Segment)
    ]


def test_paragraphs_of_markdown_have_headings_as_title(tmp_path: Path) -> None:
    found = segments("markdown", tmp_path / "notes.md", MARKDOWN)

    assert [(each.title, each.text) for each in found] == [
        ("Trips", "We sailed to Goa,\nin May."),
        ("Trips > Food", "```\n# no heading\n\nfish\n```\nNora eats no meat."),
    ]
    assert found == segments("markdown", tmp_path / "notes.md", MARKDOWN)


def test_paragraphs_of_text_are_notes(tmp_path: Path) -> None:
    found = segments("text", tmp_path / "diary.txt", "\n\nOne.\n# still text\n\n\nTwo.")

    assert [(each.title, each.text, each.kind) for each in found] == [
        ("diary", "One.\n# still text", "note"),
        ("diary", "Two.", "note"),
    ]


def test_rows_of_csv_become_segments(tmp_path: Path) -> None:
    file = tmp_path / "turns.csv"
    file.write_text(CSV)
    found = imported("csv", file)

    first = found.segment("t1")
    assert (first.speaker, first.text, first.labels) == (
        "Nora",
        "We sailed,\nin May.",
        {"trip": "goa"},
    )
    assert first.event_time == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert len(found.items) == 2
    assert len(found.problems) == 2  # a row without a text, and one with too many cells


@pytest.mark.parametrize("column", ["event_time", "timestamp", "created_at"])
def test_time_of_a_row_is_that_of_its_column(tmp_path: Path, column: str) -> None:
    (found,) = segments("csv", tmp_path / "a.csv", f"text,{column}\nHello.,2026-05-01T12:00:00Z\n")

    assert found.event_time == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert found.labels == {}


@pytest.mark.parametrize("source", ["markdown", "text", "csv"])
def test_files_without_content_have_no_items(tmp_path: Path, source: str) -> None:
    assert segments(source, tmp_path / "empty", "\n \n") == []


def test_column_of_the_text_can_be_named(tmp_path: Path) -> None:
    (found,) = segments("csv", tmp_path / "a.csv", "said,text\nHello.,x\n", text_key="said")

    assert found.text == "Hello."
