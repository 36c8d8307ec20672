"""A change of the model, as an operator makes it: another setting, and a start."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.ingest import only
from tests.fix_service import started_service
from tests.waiting import until
from trivium import Client, Retrieval, Segment
from trivium.values import LegState

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.neo4j,
    pytest.mark.ray,
    pytest.mark.model,
    pytest.mark.timeout(400),
]

PREVIOUS = {"PreviousEmbedder", "PreviousVectorIndex"}
SAID = [
    Segment(id=f"s{number}", text=f"The {number} o'clock train was late.", speaker="Tom")
    for number in "123"
]
QUESTION = "Which railway delays were there?"


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A folder for two lives of the stores, which another account can enter."""
    with tempfile.TemporaryDirectory(prefix="trivium-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def dense_alone(memory: Client) -> Retrieval:
    return memory.retrieve(QUESTION, overrides=only("dense"), explain=True)


def test_the_previous_model_answers_at_once_and_the_new_one_takes_over(data_dir: Path) -> None:
    stores = {"TRIVIUM_DATA_DIR": str(data_dir)}
    with started_service("split", **stores, TRIVIUM_EMBEDDER__TEXT_FORM="plain") as before:
        memory = before.client(tenant="trains")
        token = memory.ingest(SAID).token
        of_before = scores(
            memory.retrieve(QUESTION, token=token, overrides=only("dense"), explain=True)
        )

    # The same model fed otherwise is another one to all who compare vectors.
    change = {
        "TRIVIUM_EMBEDDER__PREVIOUS__MODEL": "minilm",
        "TRIVIUM_EMBEDDER__PREVIOUS__TEXT_FORM": "plain",
    }
    with started_service("split", **stores, **change) as after:
        memory = after.client(tenant="trains")
        at_once = dense_alone(memory)
        until(lambda: memory.stats().index.ready)
        taken_over = dense_alone(memory)
        loaded = {name for name in PREVIOUS if after.descendants(name)}

    assert loaded == PREVIOUS
    assert at_once.leg_reports[1].leg == "dense"
    assert at_once.leg_reports[1].state is LegState.OK
    # So few rows may be embedded anew before the first question comes.
    assert scores(at_once) in (of_before, scores(taken_over))
    assert scores(taken_over).keys() == of_before.keys() == {"s1", "s2", "s3"}
    assert all(scores(taken_over)[id_] != score for id_, score in of_before.items())


def scores(retrieval: Retrieval) -> dict[str, float]:
    """The cosine of each hit, as the leg has it."""
    found = {}
    for hit in retrieval.hits:
        assert hit.ledger is not None
        (term,) = hit.ledger.leg_terms
        found[hit.id] = term.leg_score
    return found
