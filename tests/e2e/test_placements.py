"""A tiny Qwen3 embeds and another one reranks: in every placement, and after the model has changed.

One life of the stores goes through all three placements, since each start takes a while; an
operator who changes the placement sees the same.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.adapters.reranker.checkpoint import open_checkpoint
from tests.contract.test_cross_encoder import Score, language_model_forward
from tests.e2e.test_reranking import when_loaded
from tests.fixtures.service import Service, environment, started_service
from tests.support.sample import SAMPLE, no_problem, sample_items
from tests.support.waiting import first, until
from trivium import Client, LegState, Retrieval, Segment, Stage
from trivium.errors import UnavailableError
from trivium.files.reading import read_questions

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]

CLOSE = 1e-3
"""Vectors are kept in float16."""

HEAD = 50
"""The number of nearest that are reranked; a few more are as near, by what float16 loses."""

REPLICA = "ray::ServeReplica:trivium:"
QUESTIONS = [each.text for each in read_questions(str(SAMPLE / "questions.jsonl"), no_problem)]


WHOLE, SHORTER, SHORTEST = 64, 48, 32
"""Dimensions, each of which is another model to all who compare vectors."""


class Library:
    """What sentence-transformers and transformers make of the sample with the same folders."""

    def __init__(self, embedder: Path, reranker: Path) -> None:
        from sentence_transformers import SentenceTransformer

        found = sample_items("conversation")
        self.segments = [each for each in found if isinstance(each, Segment)]
        self._said = {each.id: f"{each.speaker}: {each.text}" for each in self.segments}
        self._logit: Score = language_model_forward(open_checkpoint(str(reranker)))
        model = SentenceTransformer(str(embedder), device="cpu", local_files_only=True)
        quoted = [f'{each.speaker}: "{each.text}"' for each in self.segments]
        self._rows = dict(zip(self._said, model.encode(quoted), strict=True))
        self._asked = {each: model.encode(each, prompt_name="query") for each in QUESTIONS}

    def cosine(self, question: str, id_: str, dimension: int) -> float:
        asked, row = self._asked[question][:dimension], self._rows[id_][:dimension]
        return float(asked @ row / np.linalg.norm(asked) / np.linalg.norm(row))

    def nearest(self, question: str, count: int, dimension: int) -> set[str]:
        def cosine(id_: str) -> float:
            return self.cosine(question, id_, dimension)

        return set(sorted(self._said, key=cosine, reverse=True)[:count])

    def logit(self, question: str, id_: str) -> float:
        return self._logit(question, self._said[id_])


@pytest.fixture(scope="module")
def library(tiny_qwen3: EncoderCheckpoint, tiny_qwen3_reranker: Path) -> Library:
    return Library(tiny_qwen3.folder, tiny_qwen3_reranker)


@pytest.fixture
def models(
    tiny_qwen3: EncoderCheckpoint, tiny_qwen3_reranker: Path, neo4j_uri: str
) -> dict[str, str]:
    """The settings that name the tiny models, and a Neo4j that is warm already."""
    return {
        "TRIVIUM_NEO4J__URI": neo4j_uri,
        "TRIVIUM_EMBEDDER__MODEL": str(tiny_qwen3.folder),
        "TRIVIUM_RERANKER__MODEL": str(tiny_qwen3_reranker),
    }


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A folder for two lives of the stores, which another account can enter."""
    with tempfile.TemporaryDirectory(prefix="trivium-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def store(service: Service, library: Library) -> tuple[Client, str]:
    """A client of a tenant that holds the sample's conversation, and the token of its writes."""
    memory = service.client(tenant="tiny")
    return memory, memory.ingest_stream(library.segments).consistency_token


def reranked(memory: Client, question: str, token: str = "") -> Retrieval:
    """The answer; asks again while the index is too busy."""
    options: dict[str, Any] = {"profile": "two_stage", "consistency_token": token, "explain": True}

    def ask() -> list[Retrieval]:
        with contextlib.suppress(UnavailableError):
            return [memory.retrieve(question, **options)]
        return []

    return when_loaded(lambda: first(ask, bool)[0])


def cosines(answer: Retrieval) -> dict[str, float]:
    """The cosine of each hit, as its ledger has it."""
    found = {}
    for hit in answer.hits:
        assert hit.ledger is not None
        [term] = hit.ledger.leg_terms
        found[hit.id] = term.leg_score
    return found


def require_sound(answer: Retrieval, question: str, library: Library, dimension: int) -> None:
    """Compares an answer with what the libraries make of the same question."""
    assert {report.leg: report.state for report in answer.leg_reports} == {"dense": LegState.OK}
    assert {hit.stage for hit in answer.hits} == {Stage.RERANKED}
    assert cosines(answer).keys() <= library.nearest(question, HEAD + 5, dimension)
    for id_, cosine in cosines(answer).items():
        assert cosine == pytest.approx(library.cosine(question, id_, dimension), abs=CLOSE)
    for hit in answer.hits:
        assert hit.ledger is not None
        assert hit.ledger.rerank is not None
        wanted = library.logit(question, hit.id)
        assert hit.ledger.rerank.logit == pytest.approx(wanted, abs=CLOSE)
        assert hit.ledger.recompute() == pytest.approx(hit.score, abs=1e-9)


def test_hits_equal_the_libraries_in_every_placement(
    data_dir: Path, models: dict[str, str], library: Library
) -> None:
    settings = {"TRIVIUM_DATA_DIR": str(data_dir), **models}

    with started_service("single", **settings) as single:
        memory, token = store(single, library)
        first = {question: reranked(memory, question, token) for question in QUESTIONS}

    settings["TRIVIUM_EMBEDDER__DIMENSION"] = str(SHORTER)
    with started_service("split", **settings) as split:
        second = Changed.under(split)

    settings["TRIVIUM_EMBEDDER__DIMENSION"] = str(SHORTEST)
    embedded = subprocess.check_output(
        [sys.executable, "-m", "serving", "embed"],
        env={**environment(data_dir, "gpu"), **settings},
        text=True,
    )
    with started_service("gpu", **settings) as gpu:
        third = Changed.under(gpu)

    assert (second.placement, third.placement) == ("split", "gpu")
    assert second.deployed == {"Embedder", "VectorIndex", "Reranker", "Projector", "Ingress"}
    assert third.deployed == {"VectorSpace", "Reranker", "Projector", "Ingress"}
    assert embedded.splitlines()[-1].startswith("100 % of the rows")
    by_dimension = {WHOLE: first, SHORTER: second.answers, SHORTEST: third.answers}
    for dimension, answers in by_dimension.items():
        for question, answer in answers.items():
            require_sound(answer, question, library, dimension)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a service answers that was started with another model, and what runs then."""

    answers: Mapping[str, Retrieval]
    deployed: set[str]
    placement: str

    @classmethod
    def under(cls, service: Service) -> Self:
        memory = service.client(tenant="tiny")
        # Up means ready: the index may still be filled, which is no failure.
        [dense] = [
            each for each in memory.retrieve(QUESTIONS[0]).leg_reports if each.leg == "dense"
        ]
        assert dense.state is not LegState.FAILED, dense
        until(lambda: memory.stats().index.ready)
        return cls(
            answers={question: reranked(memory, question) for question in QUESTIONS},
            deployed=deployments_of(service),
            placement=memory.stats().service.placement,
        )


def deployments_of(service: Service) -> set[str]:
    """The names of the deployments that have a replica, from the titles of their processes."""
    titles = [" ".join(each.cmdline()) for each in service.descendants(REPLICA)]
    return {title.split(REPLICA)[1].split("#")[0].split()[0] for title in titles}
