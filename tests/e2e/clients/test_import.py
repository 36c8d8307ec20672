"""What other memories exported, in the service."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner

from tests.clients.importers.importing import EXPORTS
from tests.fixtures.service import Service
from tests.support.answers import states
from trivium import Retrieval
from trivium_importers.command import trivium_import

TENANT = "the-import"
IMPORTS = {"mem0": EXPORTS / "mem0.json", "graphiti": EXPORTS / "graphiti.jsonl"}
FORMER, CURRENT = (f"00000000-0000-4000-8000-{number:012}" for number in (11, 12))


def imported(service: Service, source: str) -> dict[str, Any]:
    """The result of `trivium-import`."""
    options = ["--address", service.address, "--tenant", TENANT]
    words = ["--json", source, str(IMPORTS[source])]
    done = CliRunner().invoke(trivium_import, [*options, *words])
    assert done.exit_code == 0, done.output
    [stored] = json.loads(done.stdout)["stored"]
    result: dict[str, Any] = stored["result"]
    return result


@pytest.fixture(scope="module")
def results(service: Service) -> dict[str, dict[str, Any]]:
    """Those of the first imports, which every leg has then seen."""
    results = {source: imported(service, source) for source in IMPORTS}
    token = results["graphiti"]["consistency_token"]
    assert service.client(TENANT).retrieve("Who?", consistency_token=token).complete
    return results


def asked(service: Service, question: str) -> Retrieval:
    answer = service.client(TENANT).retrieve(question)
    assert answer.complete, states(answer)
    return answer


def test_a_memory_of_mem0_is_found(service: Service, results: dict[str, dict[str, Any]]) -> None:
    assert results["mem0"]["created_count"] == 2

    hit = asked(service, "When is the wedding?").hits[0]

    assert hit.text == "The wedding was moved to the ninth of November."


def test_an_edge_of_graphiti_holds_while_it_was_valid(
    service: Service, results: dict[str, dict[str, Any]]
) -> None:
    assert results["graphiti"]["created_count"] == 7
    memory = service.client(TENANT)
    facts = {fact.id: fact for fact in memory.list_facts()}
    ended = datetime(2026, 3, 1, tzinfo=UTC)

    assert (facts[FORMER].valid_to, facts[CURRENT].valid_from) == (ended, ended)
    for day, valid in ((datetime(2025, 6, 1, tzinfo=UTC), FORMER), (ended, CURRENT)):
        assert {fact.id for fact in memory.list_facts(valid_at=day)} & {FORMER, CURRENT} == {valid}


@pytest.mark.usefixtures("results")
def test_the_turn_behind_an_edge_is_found(service: Service) -> None:
    answer = asked(service, "Where does Nora work?")

    turn = next(hit for hit in answer.hits if "I left Acme" in hit.text)
    assert "graph" in turn.legs
