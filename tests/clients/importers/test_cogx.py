from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.clients.importers.importing import EXPORTS, imported, written


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
