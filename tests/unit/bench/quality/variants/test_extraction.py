"""The same questions without facts, with extracted ones, and with those of the set."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.harness.service import Target
from bench.quality.variants import extraction
from tests.fakes.service import running
from tests.support.builders import A_DAY_LATER, segment
from tests.unit.bench.quality.tune.ranking_service import Ranking


def test_each_kind_of_facts_is_measured_in_a_service_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "talk"
    folder.mkdir()
    rows = [segment(name, f"Text {name}.") for name in "ab"]
    asked = {"id": "q", "text": "Which?", "as_of": A_DAY_LATER.isoformat()}
    known = {"id": "f", "subject": "a", "relation": "is", "object": "b", "evidence": ["a"]}
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"id": row.id, "text": row.text}) + "\n" for row in rows)
    )
    (folder / "facts.jsonl").write_text(json.dumps(known) + "\n")
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({**asked, "id": f"q{place}"}) + "\n" for place in range(2))
    )
    (folder / "qrels.tsv").write_text("q0\ta\t1\nq1\ta\t1\n")
    services: list[tuple[Mapping[str, str], Ranking]] = []

    @asynccontextmanager
    async def started(_: Path, settings: Mapping[str, str]) -> AsyncIterator[Target]:
        ranking = {"dense": {"a": 0.9, "b": 0.8}}
        service = Ranking({"description": "Meaning.", "legs": {"dense": {}}}, rows, ranking)
        services.append((settings, service))
        with running(service):
            yield Target(service.address)

    monkeypatch.setattr(extraction, "started", started)
    given = [str(folder), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(extraction.main, given, catch_exceptions=False)

    assert result.exit_code == 0, result.output
    assert [settings for settings, _ in services] == [
        {extraction.EXTRACTOR: by} for by in ("off", "rules", "off")
    ]
    (where,) = (tmp_path / "out").iterdir()
    records = [json.loads(line) for line in (where / "results.jsonl").read_text().splitlines()]
    assert [each["parameters"]["way"] for each in records] == [
        "none",
        "by rules",
        "those of the set",
    ]
    assert [each["n"] for each in records] == [2, 2, 2]
