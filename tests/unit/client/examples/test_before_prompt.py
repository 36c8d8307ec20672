from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.service import FakeService
from trivium.v1.retrieval_service_pb2 import RetrieveResponse

HOOK = Path(__file__).parents[4] / "clients/python/examples/before_prompt.py"


@pytest.mark.parametrize("is_up", [True, False])
def test_the_hook_recollects_and_never_stops_a_prompt(
    fake_service: FakeService, tmp_path: Path, is_up: bool
) -> None:
    fake_service.will_answer("Retrieve", RetrieveResponse(briefing="We sailed to Goa."))
    address = fake_service.address if is_up else "127.0.0.1:1"
    done = subprocess.run(
        [sys.executable, str(HOOK), str(tmp_path / "MEMORY.md")],
        input=json.dumps({"prompt": "Where did we sail?"}),
        env={"TRIVIUM_ADDRESS": address, "TRIVIUM_TENANT": "acme"},
        text=True,
        capture_output=True,
    )

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "MEMORY.md").exists() is is_up
    if is_up:
        assert "Goa" in (tmp_path / "MEMORY.md").read_text()
        assert fake_service.request().query == "Where did we sail?"
