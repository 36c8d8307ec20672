"""Files of exports, whatever is in them: nothing is lost without being named."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.domain.items import records
from serving.rpc import check
from serving.rpc import items as service
from tests.clients.importers.importing import EXPECTED, EXPORTS, imported, written
from trivium import Fact, Item, Segment
from trivium.files.records import Place, Record
from trivium_importers import limits
from trivium_importers.sources import SOURCES
from trivium_importers.translation import Translation

MEMORY = {"id": "m1", "memory": "We sailed."}
OTHER = {"id": "m2", "memory": "We landed."}


def ids(items: list[Item]) -> list[str]:
    return [each.id for each in items]


@pytest.mark.parametrize("expected", sorted(EXPECTED.iterdir()), ids=lambda path: path.stem)
def test_export_becomes_the_expected_items(expected: Path) -> None:
    found = imported(expected.name.partition(".")[0], EXPORTS / expected.stem)

    assert found.lines() == [json.loads(line) for line in expected.read_text().splitlines()]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([MEMORY, OTHER], indent=2),
        json.dumps({"results": [MEMORY, OTHER]}, indent=2),
        f"{json.dumps(MEMORY)}\n\n{json.dumps(OTHER)}",
        f"{json.dumps({'results': [MEMORY]})}\n{json.dumps({'results': [OTHER]})}",
    ],
    ids=["array", "document", "lines", "pages"],
)
def test_documents_and_lines_read_equally(tmp_path: Path, text: str) -> None:
    found = imported("mem0", written(tmp_path, text))

    assert (ids(found.items), found.problems) == (["m1", "m2"], [])


def test_bad_lines_are_named_and_the_others_read(tmp_path: Path) -> None:
    lines = [
        MEMORY,
        '{"id": "m3", "memo',
        [1],
        {"id": "m4"},
        {"id": "m5", "memory": "a NUL \0"},
        {"id": "m6", "memory": "half \ud83d"},
        {"id": "m7", "memory": "We sailed.", "created_at": "yesterday"},
        {"id": "m8", "memory": "x" * 40_000},
        "[" * 100_000,
        OTHER,
    ]

    found = imported("mem0", written(tmp_path, *lines))

    assert ids(found.items) == ["m1", "m2"]
    assert found.problems == [
        "export.jsonl:2: is not JSON: Unterminated string starting at at column 14",
        "export.jsonl:3: is not a JSON object",
        "export.jsonl:4: 'memory' is missing or blank",
        "export.jsonl:5: text must not contain NUL",
        "export.jsonl:6: 'memory' has a lone surrogate, which UTF-8 cannot encode",
        "export.jsonl:7: 'created_at' must be an ISO 8601 time, got 'yesterday'",
        "export.jsonl:8: text must be at most 32768 bytes, has 40000",
        "export.jsonl:9: is nested too deeply",
    ]


def test_cut_first_line_does_not_hide_others(tmp_path: Path) -> None:
    found = imported("mem0", written(tmp_path, '{"id": "m1", "mem', OTHER))

    assert ids(found.items) == ["m2"]
    assert len(found.problems) == 1


def test_cut_document_is_a_problem_at_its_end(tmp_path: Path) -> None:
    text = json.dumps([MEMORY, OTHER], indent=2)

    found = imported("mem0", written(tmp_path, text[: text.index("We landed")]))

    assert found.items == []
    (problem,) = found.problems
    assert problem == "export.jsonl:8: is not JSON: Unterminated string starting at at column 11"


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        ("", []),
        ("  \n", []),
        ({"results": {"m1": MEMORY}}, ["export.jsonl:1: results: is not a list"]),
    ],
    ids=["empty", "blank", "no list"],
)
def test_file_without_a_list_has_no_items(
    tmp_path: Path, given: object, problems: list[str]
) -> None:
    found = imported("mem0", written(tmp_path, given))

    assert (found.items, found.problems) == ([], problems)


def test_unknown_field_is_reported_with_its_count(tmp_path: Path) -> None:
    found = imported("mem0", written(tmp_path, {**MEMORY, "mood": 0}, {**OTHER, "mood": "good"}))

    assert found.unmapped == {"memory.mood": 2}


def test_labels_beyond_limits_are_reported_with_item_kept(tmp_path: Path) -> None:
    metadata = {f"key{number:02}": number for number in range(40)}
    long = {"a": "x" * 300, "b": "a NUL \0", "k" * 70: "key", "c": {"d": {"e": 1}}}

    found = imported("mem0", written(tmp_path, {**MEMORY, "metadata": {**long, **metadata}}))

    assert len(found.segment("m1").labels) == 32
    assert sum(found.unmapped.values()) == 12


def test_metadata_does_not_replace_the_owner(tmp_path: Path) -> None:
    memory = {**MEMORY, "user_id": "nora", "metadata": {"user_id": "idris"}}

    found = imported("mem0", written(tmp_path, memory))

    assert found.segment("m1").labels == {"user_id": "nora"}
    assert found.unmapped == {"memory.metadata.user_id": 1}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, True) for value in (True, 1, 1.0, "true", "TRUE", " True ", "1", "yes", "high")),
        *((value, False) for value in (False, 0, 0.0, "false", "FALSE", "0", "no", "Off", None)),
    ],
)
@pytest.mark.parametrize("name", ["sensitive", "Sensitive"])
def test_an_attribute_makes_a_segment_sensitive(
    tmp_path: Path, name: str, value: object, expected: bool
) -> None:
    many = {f"key{number:02}": number for number in range(40)}
    payload = {"text": "The code is 1234.", **many, name: value}
    memory = {**MEMORY, "metadata": {**many, name: value}}

    point = imported("qdrant", written(tmp_path, {"id": 1, "payload": payload})).segment("1")
    noted = imported("mem0", written(tmp_path, memory)).segment("m1")

    assert (point.sensitive, noted.sensitive) == (expected, expected)


def test_limits_are_those_of_the_service() -> None:
    assert limits.MAX_NAME_BYTES == records.MAX_NAME_BYTES == check.MAX_ID_BYTES
    assert limits.MAX_LABELS == records.MAX_LABELS
    assert limits.MAX_LABEL_KEY_BYTES == service.MAX_LABEL_KEY_BYTES
    counts = (records.MAX_ENTITIES, service.MAX_KEYWORDS, service.MAX_EVIDENCE)
    assert set(counts) == {limits.MAX_VALUES}
    assert limits.MAX_BYTES_OF_SEGMENT["text"] == service.MAX_TEXT_BYTES
    assert limits.MAX_BYTES_OF_SEGMENT["title"] == service.MAX_TITLE_BYTES
    assert limits.MAX_BYTES_OF_FACT["object"] == records.MAX_OBJECT_BYTES
    assert limits.MAX_BYTES_OF_FACT["sentence"] == records.MAX_SENTENCE_BYTES


def test_every_text_of_an_item_has_a_limit() -> None:
    of_kinds = {Segment: limits.MAX_BYTES_OF_SEGMENT, Fact: limits.MAX_BYTES_OF_FACT}

    for kind, of_kind in of_kinds.items():
        assert {each.name for each in fields(kind) if each.type == "str"} == set(of_kind)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = sorted(
    {
        name
        for file in EXPORTS.glob("**/*.json*")
        for line in file.read_text().splitlines()
        if line.startswith("{") and line.endswith("}")
        for name in json.loads(line)
    }
    | {"results", "relations", "agents", "role", "tool_calls", "memory", "nodes", "edges", "points"}
)


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=40)
@given(
    records=st.lists(
        st.dictionaries(st.sampled_from(NAMES) | st.text(), json_values, max_size=6), max_size=4
    )
)
def test_no_record_raises(source: str, records: list[dict[str, object]]) -> None:
    translation = Translation()
    places = (Record(Place("f", number), each) for number, each in enumerate(records))

    for found in SOURCES[source](places, translation):
        assert isinstance(found.item, Segment | Fact)


@pytest.mark.parametrize("source", SOURCES)
def test_reading_again_gives_the_same_items(source: str) -> None:
    files = [*EXPORTS.glob(f"{source}*")]

    first, second = imported(source, *files), imported(source, *files)

    assert files
    assert first == second
    assert len(set(ids(first.items))) == len(first.items)


def test_a_time_without_a_zone_is_in_utc(tmp_path: Path) -> None:
    memory = {**MEMORY, "created_at": "2026-05-20T09:30:00"}

    segment = imported("mem0", written(tmp_path, memory)).segment("m1")

    assert segment.event_time == datetime(2026, 5, 20, 9, 30, tzinfo=UTC)


def test_folders_and_links_in_a_folder_are_reported(tmp_path: Path) -> None:
    elsewhere = tmp_path / "private.json"
    elsewhere.write_text(json.dumps(OTHER))
    export = tmp_path / "export"
    (export / "older.json").mkdir(parents=True)
    (export / "a.json").symlink_to(elsewhere)
    (export / "m.json").write_text(json.dumps(MEMORY))

    found = imported("mem0", export)

    assert ids(found.items) == ["m1"]
    assert [each.partition(" ")[0] for each in found.problems] == [
        f"{name}:1:" for name in ("a.json", "older.json")
    ]


@pytest.mark.parametrize("source", ["markdown", "text", "csv"])
def test_folder_among_text_files_is_reported(tmp_path: Path, source: str) -> None:
    note = tmp_path / "note.md"
    note.write_text("text\nWe sailed.\n")

    found = imported(source, tmp_path, note)

    assert len(found.items) == 1
    assert len(found.problems) == 1
