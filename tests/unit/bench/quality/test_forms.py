"""What a form writes, what is found by it, and that a form which says more finds more."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from bench.quality.forms.__main__ import main
from bench.quality.forms.exact import EmbeddedEntries
from bench.quality.forms.texts import FORMS, SERVED, Entry, sessions
from serving.domain.items.records import Segment
from tests.fakes.service import running
from tests.support.builders import NOON, days, segment
from tests.unit.bench.quality.tune.ranking_service import Ranking

TALK = [
    segment("a", "Any news?", speaker="Tom", session="1"),
    segment("b", "We have a dog", speaker="Mel", session="1"),
    segment("x", "Rent is due", session="", title="Notes", event_time=NOON - days(9)),
    segment("c", "What is she called?", speaker="Tom", session="1"),
    segment("d", "Bye", speaker="Mel", session="2"),
]


def texts(form: str, segments: Sequence[Segment] = TALK) -> dict[tuple[str, ...], str]:
    return {entry.segments: entry.text for entry in FORMS[form](segments)}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_an_entry_for_each_segment_alone(form: str) -> None:
    assert {(row.id,) for row in TALK} <= texts(form).keys()


def test_what_was_said_before_is_that_of_the_same_session() -> None:
    written = texts("with the turn before")

    assert written["b",].index("We have a dog") < written["b",].index("Any news?")
    assert "dog" in written["c",]
    assert all("\n" not in written[first,] for first in "axd")


def test_chunks_stand_beside_the_segments_and_stay_within_a_session() -> None:
    beside = texts("chunks of 3 beside").keys() - texts(SERVED).keys()

    assert beside == {("a", "b", "c")}


def test_a_session_shorter_than_a_chunk_is_one_and_a_single_segment_none() -> None:
    assert texts("chunks of 6 beside").keys() - texts(SERVED).keys() == {("a", "b", "c")}


def test_what_has_no_session_is_one_by_itself() -> None:
    loose = [segment(name, session="") for name in "ab"]

    assert [[row.id for row in each] for each in sessions([*TALK, *loose])] == [
        *(["a", "b", "c"], ["d"], ["x"], ["a"], ["b"])
    ]


def test_an_entry_counts_by_its_best_window_and_gives_way_to_its_segments_once() -> None:
    entries = [Entry("far", ("a",)), Entry("long", ("b",)), Entry("chunk", ("c", "b", "d"))]
    windows = np.array([[0, 1], [0, 1], [1, 0], [0.6, 0.8]], np.float32)

    found = EmbeddedEntries(entries, windows, [1, 2, 1]).nearest(np.array([1, 0], np.float32), 10)

    assert [(each.item.id, round(each.score, 2)) for each in found] == [
        *(("b", 1.0), ("c", 0.6), ("d", 0.6), ("a", 0.0))
    ]


CORPUS = [
    {"id": "q", "text": "What is your dog called?", "speaker": "Tom", "session": "s"},
    {"id": "a", "text": "Rufus", "speaker": "Mel", "session": "s"},
    {"id": "n1", "text": "The dog sleeps a lot", "speaker": "Mel", "session": "t"},
    {"id": "n2", "text": "Dogs are loud", "speaker": "Tom", "session": "u"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set whose answer says nothing without the question before it."""
    folder = tmp_path / "talk"
    folder.mkdir()
    query = {"id": "q1", "text": "Name of the dog?", "as_of": (NOON + timedelta(1)).isoformat()}
    (folder / "corpus.jsonl").write_text("".join(json.dumps(each) + "\n" for each in CORPUS))
    (folder / "queries.jsonl").write_text(json.dumps(query) + "\n")
    (folder / "qrels.tsv").write_text("q1\ta\t1\n")
    return folder


@pytest.fixture
def service() -> Iterator[Ranking]:
    rows = [
        segment(one["id"], one["text"], speaker=one["speaker"], session=one["session"])
        for one in CORPUS
    ]
    definition = {"description": "Two legs.", "legs": {"lexical": {}, "dense": {}}}
    lists = {"lexical": {"n1": 1.0}, "dense": {"n1": 0.9}}
    with running(service := Ranking(definition, rows, lists)):
        yield service


def test_a_form_is_compared_with_what_is_served_by_the_encoder_alone_and_in_the_profile(
    service: Ranking, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results"
    given = [str(folder), "--form", "with the turn before", "--address", service.address]

    result = CliRunner().invoke(main, [*given, "--out", str(out)], catch_exceptions=False)

    assert result.exit_code == 0, result.output
    (where,) = out.iterdir()
    assert sorted(each.name for each in where.iterdir()) == ["results.jsonl", "summary.md"]
    records = [json.loads(line) for line in (where / "results.jsonl").read_text().splitlines()]
    by_way = {each["parameters"]["way"]: each for each in records}
    assert list(by_way) == [
        f"{profile}, {form}"
        for profile in ("meaning", "default - related")
        for form in (SERVED, "with the turn before")
    ]
    served, before = (by_way[f"meaning, {form}"] for form in (SERVED, "with the turn before"))
    assert before["measured"]["mrr@10"]["mean"] > served["measured"]["mrr@10"]["mean"]
    assert before["measured"]["difference"]["mrr@10"]["mean"] > 0
    assert served["measured"]["evidence@2000"]["mean"] <= 1
    assert "the service's index finds 0.2500" in (where / "summary.md").read_text()
    assert before["parameters"]["command"] == (
        "python -m bench.quality.forms talk --form 'with the turn before'"
    )
