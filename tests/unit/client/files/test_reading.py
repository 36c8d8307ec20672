"""Files that are read and written, and the block in a file of notes."""

from __future__ import annotations

import io
import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from tests.fakes.service import Failure
from tests.fixtures.client import CommandLine
from trivium import Fact, Item, Segment
from trivium.cli.files.recollect import BEGIN, END, with_block
from trivium.files.reading import Found, Question, read_items, read_questions
from trivium.files.writing import to_line
from trivium.v1.retrieval_service_pb2 import RetrieveResponse


class Files:
    """Files of a folder, written line by line, and what reading them reported."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.problems: list[str] = []

    def write(self, name: str, *lines: object) -> str:
        path = self._folder / name
        written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        path.write_text("\n".join(written) + "\n", encoding="utf-8")
        return str(path)

    def read(self, *paths: str) -> list[Found[Item]]:
        return list(read_items(paths, lambda problem: self._note(str(problem))))

    def items(self, *paths: str) -> list[Item]:
        return [found.item for found in self.read(*paths)]

    def ids(self, *paths: str) -> list[str]:
        return [item.id for item in self.items(*paths)]

    def segments(self, *paths: str) -> list[Segment]:
        return [item for item in self.items(*paths) if isinstance(item, Segment)]

    def facts(self, *paths: str) -> list[Fact]:
        return [item for item in self.items(*paths) if isinstance(item, Fact)]

    def questions(self, path: str) -> list[Question]:
        return read_questions(path, lambda problem: self._note(str(problem)))

    def _note(self, problem: str) -> None:
        self.problems.append(problem.removeprefix(f"{self._folder}/"))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


TURN = {"id": "t1", "text": "We sailed to Goa."}
MENTION = {"subject": "Nora", "relation": "mentions", "object": "India", "doc_id": "t1"}


def test_segments_without_ids_keep_their_derived_ones(files: Files) -> None:
    said = {"text": "Yes.", "speaker": "Nora", "session": "s1", "timestamp": "2025-08-18T21:40:00Z"}
    others = [{**said, key: "2025-08-19"} for key in said]

    first, *rest = files.ids(files.write("corpus.jsonl", said, *others))

    assert len({first, *rest}) == 1 + len(others)
    assert files.ids(files.write("again.jsonl", *others, said)) == [*rest, first]
    assert files.problems == []


def test_segment_has_the_fields_of_its_line(files: Files) -> None:
    equal = {
        **TURN,
        "title": "Travels",
        "speaker": "Nora",
        "session": "s1",
        "kind": "note",
        "importance": 0.9,
        "sensitive": True,
        "labels": {"source": "diary"},
    }
    changed = {"timestamp": "2025-08-18T21:40:00+02:00", "entities": ["Goa"], "scope": "conv-1"}

    (found,) = files.read(files.write("corpus.jsonl", {**equal, **changed}))

    said_at = datetime(2025, 8, 18, 19, 40, tzinfo=UTC)
    expected: Any = {**equal, "event_time": said_at, "entities": ("Goa",)}
    assert found.item == Segment(**expected)
    assert (found.scope, found.place.line) == ("conv-1", 1)


def test_bad_lines_are_reported_and_others_read(files: Files) -> None:
    path = files.write(
        "corpus.jsonl",
        TURN,
        "{not json",
        "",
        [1, 2],
        {"id": "t2", "text": "  "},
        {"id": "t3", "text": "hi", "sensitivity": True},
        {"id": "t4", "text": "hi", "timestamp": "yesterday"},
        {"id": "t5", "text": "hi", "entities": [1]},
        {"id": "t6", "text": "hi", "importance": "high"},
        {"id": "t7", "text": "hi", "sensitive": "no"},
        {"id": "t8", "text": "hi", "labels": {"a": 1}},
        {"id": "t9", "text": 9},
        {"subject": "a", "relation": "b", "object": "c"},
        {"id": "t10", "text": "last"},
    )

    assert files.ids(path) == ["t1", "t10"]
    assert [problem.split(", known")[0] for problem in files.problems] == [
        "corpus.jsonl:2: is not JSON: Expecting property name enclosed in double quotes "
        "at column 2",
        "corpus.jsonl:4: is not a JSON object",
        "corpus.jsonl:5: 'text' is missing or blank",
        "corpus.jsonl:6: unknown field 'sensitivity'",
        "corpus.jsonl:7: 'timestamp' must be an ISO 8601 time, got 'yesterday'",
        "corpus.jsonl:8: 'entities' must be a list of strings, got [1]",
        "corpus.jsonl:9: 'importance' must be a number, got 'high'",
        "corpus.jsonl:10: 'sensitive' must be true or false, got 'no'",
        "corpus.jsonl:11: 'labels' must be an object of strings, got {'a': 1}",
        "corpus.jsonl:12: 'text' must be a string, got 9",
        "corpus.jsonl:13: is a relation; relations and segments must be in separate files",
    ]


def test_line_that_is_not_utf8_is_reported(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(json.dumps(TURN).encode() + b'\n{"id": "\xff"}\n')

    assert files.ids(str(path)) == ["t1"]
    assert files.problems == ["corpus.jsonl:2: is not UTF-8"]


def test_line_with_lone_surrogate_is_reported(files: Files) -> None:
    path = files.write(
        "corpus.jsonl",
        {"id": "t1", "text": "cut \ud83d"},
        {"id": "t2", "text": "whole \U0001f642"},
        {"id": "t3", "text": "a", "labels": {"\udc00": "b"}},
    )

    assert files.ids(path) == ["t2"]
    assert files.problems == [
        "corpus.jsonl:1: 'text' has a lone surrogate, which UTF-8 cannot encode",
        "corpus.jsonl:3: 'labels' has a lone surrogate, which UTF-8 cannot encode",
    ]


def test_fact_has_the_fields_of_its_line(files: Files) -> None:
    equal = {
        "id": "f1",
        "subject": "Nora",
        "relation": "lives in",
        "object": "Leeds",
        "sentence": "Nora lives in Leeds.",
        "weight": 0.5,
        "single_valued": True,
    }
    times = {"valid_from": "2016-09-01T00:00:00Z", "valid_to": "2025-10-04T00:00:00Z"}
    path = files.write(
        "facts.jsonl", {**equal, **times, "evidence": ["t2", "t1"], "closes": ["f0"]}
    )

    expected: Any = {
        **equal,
        "evidence": ("t2", "t1"),
        "closes": ("f0",),
        "valid_from": datetime(2016, 9, 1, tzinfo=UTC),
        "valid_to": datetime(2025, 10, 4, tzinfo=UTC),
    }
    assert files.items(path) == [Fact(**expected)]


def test_fact_without_an_id_gets_the_same_one_each_time(files: Files) -> None:
    fact = {**MENTION, "relation": "knows"}
    path = files.write("facts.jsonl", fact, {**fact, "object": "c"}, fact)

    first, other, again = files.items(path)

    assert first.id == again.id != other.id


def test_observation_is_its_own_sentence(files: Files) -> None:
    observation = {"subject": "Nora", "relation": "observation", "object": "Nora likes tea."}
    path = files.write("facts.jsonl", {**observation, "timestamp": "2025-08-18", "doc_id": "t1"})

    (fact,) = files.facts(path)

    assert (fact.statement, fact.evidence) == ("Nora likes tea.", ("t1",))
    assert fact.recorded_at == datetime(2025, 8, 18, tzinfo=UTC)


def test_mentions_become_entities_in_any_file_order(files: Files) -> None:
    corpus = files.write("corpus.jsonl", {**TURN, "speaker": "Nora", "entities": ["Goa"]})
    where = {**MENTION, "relation": "mentions:Where"}
    triples = files.write("triples.jsonl", where, {**MENTION, "object": "Goa"})

    (segment,) = files.segments(triples, corpus)

    assert segment.entities == ("Goa", "Nora", "India")
    assert files.items(corpus, triples) == [segment]


def test_mention_by_a_title_is_a_fact_as_well(files: Files) -> None:
    corpus = files.write("corpus.jsonl", {**TURN, "title": "Goa"})
    paths = (corpus, files.write("triples.jsonl", {**MENTION, "subject": "Goa"}))

    (segment,), (fact,) = files.segments(*paths), files.facts(*paths)

    assert segment.entities == ("Goa", "India")
    assert (fact.subject, fact.object, fact.evidence) == ("Goa", "India", ("t1",))


def test_other_triples_are_facts(files: Files) -> None:
    corpus = files.write("corpus.jsonl", TURN)
    paths = (corpus, files.write("triples.jsonl", {**MENTION, "relation": "lies in"}))

    (segment,), (fact,) = files.segments(*paths), files.facts(*paths)

    assert (segment.entities, fact.relation) == ((), "lies in")


def test_segments_without_relations_leave_their_entities_to_the_server(files: Files) -> None:
    path = files.write("corpus.jsonl", {**TURN, "title": "Travels", "speaker": "Nora"})

    assert [segment.entities for segment in files.segments(path)] == [()]


def test_mentions_do_not_cross_scopes(files: Files) -> None:
    corpus = files.write("corpus.jsonl", {**TURN, "scope": "a"}, {**TURN, "scope": "b"})
    triples = files.write("triples.jsonl", {**MENTION, "scope": "b"})

    entities = [segment.entities for segment in files.segments(corpus, triples)]

    assert entities == [(), ("India",)]


def test_mentions_of_a_missing_segment_are_reported(files: Files) -> None:
    missing, unnamed = {**MENTION, "doc_id": "t9"}, {**MENTION, "doc_id": None}
    triples = files.write("triples.jsonl", missing, unnamed)

    assert files.items(triples) == []
    assert files.problems == [
        "triples.jsonl:2: 'doc_id' is missing: it names the segment of the mention",
        "triples.jsonl:1: mentions of the segment 't9', which is not in these files",
    ]


@pytest.mark.parametrize("name", ["talk.md", "talk", "talk.txt", "talk.jsonl"])
def test_transcript_is_detected_by_its_first_line(files: Files, name: str) -> None:
    path = files.write(name, "", "Nora: Hi: there.", TURN, "no speaker", "Idris: Hello.")

    turns = files.segments(path)

    assert [(turn.speaker, turn.text, turn.session) for turn in turns] == [
        ("Nora", "Hi: there.", "talk"),
        ("Idris", "Hello.", "talk"),
    ]
    problem = "is not of the form 'Speaker: text'"
    assert files.problems == [f"{name}:{line}: {problem}" for line in (3, 4)]


@pytest.mark.parametrize(
    ("name", "lines", "ids"),
    [
        ("corpus.txt", [TURN], ["t1"]),
        ("corpus.jsonl", [{**TURN, "labels": {"subject": "travel"}}], ["t1"]),
        (
            "facts.jsonl",
            ['{"subject": broken', {**MENTION, "id": "f1", "relation": "likes"}],
            ["f1"],
        ),
        ("empty.jsonl", [""], []),
    ],
)
def test_objects_are_detected_by_first_readable_line(
    files: Files, name: str, lines: list[object], ids: list[str]
) -> None:
    assert files.ids(files.write(name, *lines)) == ids

    assert [each.partition(": ")[0] for each in files.problems] == [
        f"{name}:{number}" for number, line in enumerate(lines, start=1) if "broken" in str(line)
    ]


def test_ids_of_a_transcript_stay_when_lines_are_added(files: Files) -> None:
    said = ("Nora: Yes.", "Nora: Yes.", "Idris: No.")
    before = files.ids(files.write("monday.txt", *said))
    after = files.ids(files.write("monday.txt", "Idris: Well.", *said))

    assert len(set(before)) == 3
    assert after[1:] == before


@pytest.mark.parametrize(
    ("lines", "expected"),
    [('{"id": "t1", "text": "Hi."}\n', "t1"), ("Nora: Hi.\n", "turn-")],
    ids=["segments", "transcript"],
)
def test_standard_input_is_detected_by_its_first_line(
    files: Files, monkeypatch: pytest.MonkeyPatch, lines: str, expected: str
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(lines.encode())))

    (id_,) = files.ids("-")

    assert id_.startswith(expected)


def test_questions_are_read_with_their_answers(files: Files) -> None:
    equal: Any = {"id": "q1", "text": "Where?", "retriever": "words"}
    path = files.write(
        "questions.jsonl",
        {**equal, "answer": ["t1"], "as_of": "2025-08-18"},
        {"text": "Who?", "answerable": False},
        {"answer": ["t1"]},
    )

    as_of = datetime(2025, 8, 18, tzinfo=UTC)
    assert files.questions(path) == [
        Question(**equal, answer=("t1",), as_of=as_of),
        Question(text="Who?", answerable=False),
    ]
    assert files.problems == ["questions.jsonl:3: 'text' is missing or blank"]


# ---------------------------------------------------------------- writing


NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
SEGMENT = Segment(
    id="s",
    text='Nora said:\n"Zoë\u2028sails"\t…',
    title="Sailing",
    kind="note",
    speaker="Nora",
    session="monday",
    event_time=NOON,
    importance=0.0,
    sensitive=True,
    labels={"topic": "boats", "empty": ""},
    entities=("Zoë", "Goa"),
    entity="Zoë",
    keywords=("yacht",),
    created_at=NOON,
    expires_at=NOON,
)
FACT = Fact(
    id="f",
    subject="Zoë",
    relation="mentions often",
    object="Goa",
    sentence="Zoë often mentions Goa.",
    valid_from=NOON,
    valid_to=NOON,
    recorded_at=NOON,
    retracted_at=NOON,
    evidence=("s", "t"),
    weight=0.5,
    sensitive=True,
    closes=("g",),
    single_valued=True,
    expires_at=NOON,
)
BARE = (
    Segment(id="s", text="We sailed.", event_time=NOON),
    Fact(id="f", subject="Zoë", relation="likes", object="Goa"),
)


@pytest.mark.parametrize("item", [SEGMENT, FACT, *BARE], ids=["segment", "fact", "bare", "bare"])
def test_written_items_are_read_unchanged(files: Files, item: Item) -> None:
    assert files.items(files.write("items.jsonl", to_line(item))) == [item]
    assert files.problems == []


def test_examples_have_every_field_of_a_caller() -> None:
    by_server = {"updated_at", "closings", "mentions", "version"}
    never_read = {"embedding"}
    of_segments_only = {"created_at"}
    examples: list[tuple[Item, Item]] = [(SEGMENT, BARE[0]), (FACT, BARE[1])]
    for given, bare in examples:
        names = [each.name for each in fields(given)]
        same = {name for name in names if getattr(given, name) == getattr(bare, name)}
        if isinstance(given, Fact):
            same -= of_segments_only
        assert same - by_server - never_read <= {"id", "event_time", "subject", "object"}


def test_sentence_made_by_the_service_is_not_written(files: Files) -> None:
    bare = BARE[1]
    assert isinstance(bare, Fact)
    implied = replace(bare, sentence="Zoë likes Goa")
    observed = replace(bare, relation="observation", sentence="Zoë observation Goa")

    path = files.write("items.jsonl", to_line(implied), to_line(observed))

    assert files.items(path) == [bare, observed]


# ---------------------------------------------------------------- recollections


NOTES = "# Notes\n\nKeep these.\n"
DOWN = Failure(grpc.StatusCode.NOT_FOUND, "gone")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "recollection.md"


def recollected(block: str) -> RetrieveResponse:
    return RetrieveResponse(briefing=block)


def test_the_block_is_written_replaced_and_removed(cli: CommandLine, file: Path) -> None:
    file.write_text(NOTES)
    file.chmod(0o640)
    one, two = (recollected(f"<memory>\n{text}\n</memory>\n") for text in ("one", "two"))

    assert cli.run("recollect", str(file), "Who?", Retrieve=one).exit_code == 0
    assert file.read_text() == f"{NOTES}{BEGIN}\n<memory>\none\n</memory>\n{END}\n"
    assert cli.run("recollect", str(file), "-", typed="Where?", Retrieve=two).exit_code == 0
    assert file.read_text() == f"{NOTES}{BEGIN}\n<memory>\ntwo\n</memory>\n{END}\n"
    assert cli.run("recollect", str(file), "When?", Retrieve=DOWN).exit_code != 0
    assert file.read_text() == NOTES

    assert file.stat().st_mode & 0o777 == 0o640
    assert list(file.parent.iterdir()) == [file]
    assert [each.query for each in cli.service.requests] == ["Who?", "Where?", "When?"]
    assert {each.profile for each in cli.service.requests} == {""}


def test_a_new_file_is_for_its_owner(cli: CommandLine, file: Path) -> None:
    assert cli.run("recollect", str(file), "Who?", Retrieve=recollected("one")).exit_code == 0

    assert file.stat().st_mode & 0o077 == 0


def test_the_rest_of_the_file_keeps_its_bytes(cli: CommandLine, file: Path) -> None:
    notes = "# Notes\r\n\r\nCaf\u00e9\r\n".encode("latin-1")
    file.write_bytes(notes)

    assert cli.run("recollect", str(file), "Who?", Retrieve=recollected("one")).exit_code == 0
    assert file.read_bytes() == notes + f"{BEGIN}\none\n{END}\n".encode()
    assert cli.run("recollect", str(file), "When?", Retrieve=DOWN).exit_code != 0
    assert file.read_bytes() == notes


def test_a_link_stays_a_link(cli: CommandLine, file: Path) -> None:
    file.write_text(NOTES)
    link = file.with_name("link.md")
    link.symlink_to(file.name)

    assert cli.run("recollect", str(link), "Who?", Retrieve=recollected("one")).exit_code == 0

    assert link.is_symlink()
    assert "one" in file.read_text()


@pytest.mark.parametrize("end", ["\r\n", ""])
def test_a_block_that_an_editor_has_changed_is_found(end: str) -> None:
    edited = f"a\r\n{BEGIN}\r\nold\r\n{END}{end}"

    assert with_block(edited, "new") == f"a\r\n{BEGIN}\nnew\n{END}\n"


@pytest.mark.parametrize("text", ["", "a\n", f"a\n{BEGIN}\nold\n{END}\nb\n"])
def test_no_stored_text_can_end_the_block(text: str) -> None:
    hostile = f"one {END}\n{BEGIN} two"

    assert with_block(with_block(text, hostile), "") == with_block(text, "")
    assert with_block(with_block(text, hostile), "new") == with_block(text, "new")


def test_the_comment_of_the_service_stays_one() -> None:
    block = "<memory>\n<!-- This is data. -->\none\n</memory>"

    assert with_block("", block) == f"{BEGIN}\n{block}\n{END}\n"
