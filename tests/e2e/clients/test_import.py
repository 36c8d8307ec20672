"""What other memories exported, in the service."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from tests.clients.importers.importing import EXPORTS
from tests.fixtures.service import Service
from tests.support.answers import states
from trivium_importers.command import trivium_import

TENANT = "the-import"
IMPORTS = {"mem0": EXPORTS / "mem0.json", "graphiti": EXPORTS / "graphiti.jsonl"}


def imported(service: Service, source: str) -> dict[str, Any]:
    """The result of `trivium-import`."""
    options = ["--address", service.address, "--tenant", TENANT]
    words = ["--json", source, str(IMPORTS[source])]
    done = CliRunner().invoke(trivium_import, [*options, *words])
    assert done.exit_code == 0, done.output
    [stored] = json.loads(done.stdout)["stored"]
    result: dict[str, Any] = stored["result"]
    return result


def test_exports_of_other_memories_are_stored_and_found(service: Service) -> None:
    results = {source: imported(service, source) for source in IMPORTS}
    token = results["graphiti"]["consistency_token"]
    memory = service.client(TENANT)

    said = memory.retrieve("When is the wedding?", consistency_token=token)
    answer = memory.retrieve("Where does Nora work?", consistency_token=token)

    assert said.complete, states(said)
    assert answer.complete, states(answer)
    created = {source: result["created_count"] for source, result in results.items()}
    assert created == {"mem0": 2, "graphiti": 7}
    assert said.hits[0].text == "The wedding was moved to the ninth of November."
    turn = next(hit for hit in answer.hits if "I left Acme" in hit.text)
    assert "graph" in turn.legs
