"""The command against a service that ranks given lists as ours does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from bench.harness.results import FILE_NAME
from bench.quality.tune.__main__ import main
from bench.quality.tune.evidence import EVIDENCE
from serving.config.profiles import ProfileBook
from tests.fakes.service import running
from tests.support.builders import NOON, segment
from tests.unit.bench.quality.fake_memory import FakeMemory
from tests.unit.bench.quality.tune.listed_service import definition_of
from tests.unit.bench.quality.tune.ranking_service import Ranking

ROWS = [segment(f"d{number}", f"Text {number}.", event_time=NOON) for number in range(9)]
LISTS = {
    "lexical": {"d0": 5.0, "d1": 4.0, "d2": 3.0},
    "dense": {"d3": 0.9, "d1": 0.5, "d0": 0.4},
    "graph": {"d2": 0.6},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of eight questions, all answered by the first result of words."""
    folder = tmp_path / "home"
    folder.mkdir()
    as_of = (NOON + timedelta(days=1)).isoformat()
    corpus = ({"id": row.id, "text": row.text} for row in ROWS)
    queries = ({"id": f"q{n}", "text": f"Which {n}?", "as_of": as_of} for n in range(8))
    (folder / "corpus.jsonl").write_text("".join(json.dumps(each) + "\n" for each in corpus))
    (folder / "queries.jsonl").write_text("".join(json.dumps(each) + "\n" for each in queries))
    (folder / "qrels.tsv").write_text("".join(f"q{n}\td0\t1\n" for n in range(8)))
    return folder


@pytest.fixture
def service() -> Iterator[Ranking]:
    """With a default profile that prefers meaning, which misleads here."""
    definition = {
        "description": "Words and meaning.",
        "rank_constant": 2.0,
        "legs": {"lexical": {"weight": 1.0}, "dense": {"weight": 2.0}, "graph": {}},
    }
    service = Ranking(definition, ROWS, LISTS)
    with running(service):
        yield service


def run(service: FakeMemory, *arguments: str | Path) -> Result:
    given = [*map(str, arguments), "--folds", "2", "--address", service.address]
    return CliRunner().invoke(main, given, catch_exceptions=False)


def test_better_profile_is_written_with_its_evidence(
    service: Ranking, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine.yaml"

    result = run(service, folder, "--results", tmp_path / "results", "--out", out)

    assert result.exit_code == 0, result.output
    assert "8 of 8 answers (100.0%) agree" in result.output
    (where,) = (tmp_path / "results").iterdir()
    assert sorted(each.name for each in where.iterdir()) == ["default.yaml", EVIDENCE, FILE_NAME]
    assert out.read_text() == (where / "default.yaml").read_text()
    tuned = ProfileBook({"mine": yaml.safe_load(out.read_text())})["mine"]
    assert tuned.leg("lexical").weight > 1
    (record,) = map(json.loads, (where / FILE_NAME).read_text().splitlines())
    assert record["before"] < record["held_out"] == record["after"] == 1
    assert record["command"] == ("python -m bench.quality.tune home --profile default --folds 2")
    for file in where.iterdir():
        assert "Text 0" not in file.read_text()
        assert "Which 0" not in file.read_text()


def test_tuning_requires_an_agreeing_replay(folder: Path, tmp_path: Path) -> None:
    service = Ranking(definition_of(), ROWS, LISTS, misleading=100)
    with running(service):
        result = run(service, folder, "--results", tmp_path / "results")

    assert result.exit_code == 1
    assert "only 0 of 8 answers (0.0%) agree, and 99% must" in result.output
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("profile", "why"),
    [("none", "no profile is called 'none'; known: default"), ("default", "cannot be dealt")],
)
def test_impossible_search_is_refused(
    service: Ranking, folder: Path, tmp_path: Path, profile: str, why: str
) -> None:
    limited = ("--limit-queries", "1")

    result = run(service, folder, "--results", tmp_path, "--profile", profile, *limited)

    assert result.exit_code == 1
    assert why in result.output
