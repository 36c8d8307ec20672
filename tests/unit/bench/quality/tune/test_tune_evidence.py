from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from bench.quality.tune import evidence
from bench.quality.tune.coordinates import Definition, changed, coordinates, reachable
from bench.quality.tune.evidence import Tuned, profile_file, shortened
from bench.quality.tune.folds import cross_validate
from bench.quality.tune.objective import Board, Objective
from bench.quality.tune.replay import Proof, Replay
from bench.quality.tune.search import CoordinateSearch
from serving.config.profiles import ProfileBook
from serving.domain.ranking.profile import Profile
from tests.support.builders import segment
from tests.unit.bench.quality.tune.listed_service import definition_of, listed, question

ROWS = [segment(f"s{number}", f"Secret number {number}.") for number in range(12)]
START: Definition = {
    "description": "Words and meaning.",
    "rank_constant": 2.0,
    "legs": {"lexical": {"weight": 1.0, "depth": 20}, "dense": {"weight": 1.5, "depth": 20}},
}


def tuned() -> Tuned:
    """A search over eight questions that words answer and meaning does not."""
    profile = read(START)
    lists = {"lexical": "s5 s6", "dense": "s1 s2"}
    questions = [question(f"q{n}", "s5", tenant=f"t{n % 4}") for n in range(8)]
    board = Board([Replay(listed(lists, each, ROWS)) for each in questions])
    objective = Objective(board, board.everything)
    tried = coordinates(START, profile)
    search = CoordinateSearch("mine", START, tried)
    searched = search.run(objective)
    halves = [np.arange(0, 8, 2), np.arange(1, 8, 2)]
    return Tuned(
        name="mine",
        start=START,
        board=board,
        objective=objective,
        before=board.scores(profile),
        after=board.scores(searched.profile),
        searched=searched,
        validated=cross_validate(board, halves, [], lambda _: search),
        coordinates=tried,
        proof=Proof(8, []),
        command="python -m bench.quality.tune set",
        about={"at": "now", "commit": "abc", "machine": {"cores": 2}},
    )


def read(definition: Definition) -> Profile:
    profile = reachable("mine", definition)
    assert profile is not None
    return profile


@pytest.mark.parametrize("name", ProfileBook.load())
def test_a_shortened_definition_is_the_same_profile(name: str) -> None:
    book = ProfileBook.load()

    short = yaml.safe_load(yaml.safe_dump(shortened(book.definition(name)), sort_keys=False))

    assert without_order(ProfileBook({name: short})[name]) == without_order(book[name])
    assert len(json.dumps(short)) < len(json.dumps(book.definition(name)))


def without_order(profile: Profile) -> dict[str, Any]:
    return {
        **{field: getattr(profile, field) for field in profile.__slots__},
        "legs": {leg.name: leg for leg in profile.legs},
    }


def test_what_was_searched_is_read_back_by_the_service_as_it_was_found() -> None:
    found = tuned()

    text = profile_file(found)

    assert ProfileBook({"mine": yaml.safe_load(text)})["mine"] == found.searched.profile
    assert text.startswith("# Made by python -m bench.quality.tune set\n# at commit abc, now.\n")
    assert found.searched.profile != read(START)


def test_a_decay_survives_being_written(tmp_path: Path) -> None:
    decay = {"half_life": "P90D", "floor": 0.8, "evergreen_floor": 0.8}
    definition = changed(definition_of(), "decay", decay)
    (tmp_path / "default.yaml").write_text(yaml.safe_dump(shortened(definition)))

    again = ProfileBook.load(tmp_path)["default"]

    expected = reachable("default", definition)
    assert expected is not None
    assert again.decay == expected.decay is not None


def test_the_evidence_has_each_value_tried_and_each_question_and_no_text(tmp_path: Path) -> None:
    found = tuned()

    path = evidence.write(tmp_path / "tune", found)

    assert path.name == "mine.yaml"
    lines = (tmp_path / "tune" / evidence.STEPS).read_text().splitlines()
    records = [json.loads(line) for line in lines]
    of_kind = {kind: [each for each in records if each["kind"] == kind] for kind in KINDS}
    assert sum(map(len, of_kind.values())) == len(records)
    assert len(of_kind["step"]) == sum(len(each.steps) for _, each in found.searches)
    assert {each["search"] for each in of_kind["step"]} == {"all", "fold 1", "fold 2"}
    assert sorted(each["query"] for each in of_kind["question"]) == [f"q{n}" for n in range(8)]
    assert {each["fold"] for each in of_kind["question"]} == {1, 2}
    for written_file in (tmp_path / "tune").iterdir():
        assert "Secret" not in written_file.read_text()
        assert "What did" not in written_file.read_text()


KINDS = ("step", "question")


def test_people_read_what_is_held_out_with_intervals_and_what_each_fold_chose() -> None:
    text = evidence.evidence(tuned())

    assert "| set: mrr@10 | 8 | 0.333 [0.333, 0.333] | 1.000 [1.000, 1.000] " in text
    assert "| **+0.667 [+0.667, +0.667]** |" in text
    assert "| field | start | all | fold 1 | fold 2 |" in text
    assert "Under the start 8 of 8 answers (100.0%) are the service's own." in text
    assert "| 1 | legs.lexical.weight |" in text
