"""The sample conversation needs each kind of retriever, and every profile answers over it."""

from __future__ import annotations

import json

import pytest

from bench.speed.ingest import only
from serving.config.profiles import ProfileBook
from tests.fixtures.service import Service
from tests.support.sample import SAMPLE, no_problem, sample_items
from trivium import Client, LegOverride, LegState, Retrieval
from trivium.files.reading import read_questions

DEEP = 100


@pytest.fixture(scope="module")
def sample(service: Service) -> tuple[Client, str]:
    """A client of a tenant that holds the sample, and the token of its writes."""
    memory = service.client(tenant="the-sample")
    return memory, memory.ingest_stream(sample_items()).consistency_token


def asked_deep(sample: tuple[Client, str], question: str, leg: str) -> list[str]:
    """What one leg alone finds, as deep as it goes."""
    memory, token = sample
    overrides = {**only(leg), leg: LegOverride(depth=DEEP)}
    answer = memory.retrieve(question, consistency_token=token, limit=DEEP, leg_overrides=overrides)
    assert answer.complete, answer.leg_reports
    return [ref.id for hit in answer.hits for ref in (hit.ref, *hit.folded)]


def questions() -> dict[str, tuple[str, str]]:
    """Text and answer of the sample's questions, by the kind of retriever."""
    lines = (SAMPLE / "questions.jsonl").read_text().splitlines()
    return {each["retriever"]: (each["text"], each["answer"][0]) for each in map(json.loads, lines)}


def test_every_answer_is_among_the_first_three(sample: tuple[Client, str]) -> None:
    memory, token = sample

    ranks: dict[str, int | None] = {}
    for question in read_questions(str(SAMPLE / "questions.jsonl"), no_problem):
        answer: Retrieval = memory.retrieve(question.text, consistency_token=token)
        assert answer.complete, answer.leg_reports
        ranks[question.text] = answer.rank_of(question.answer)

    assert all(rank is not None and rank <= 3 for rank in ranks.values()), ranks


@pytest.mark.parametrize(
    ("kind", "finding", "lacking"),
    [
        ("meaning", ["dense"], ["lexical", "facts", "graph"]),
        ("relations", ["graph"], ["lexical", "dense", "facts"]),
    ],
)
def test_retriever_finds_answers_that_others_miss(
    sample: tuple[Client, str], kind: str, finding: list[str], lacking: list[str]
) -> None:
    question, answer = questions()[kind]

    for leg in finding:
        assert answer in asked_deep(sample, question, leg), leg
    for leg in lacking:
        assert answer not in asked_deep(sample, question, leg), leg


def test_the_relation_is_of_two_hops(sample: tuple[Client, str]) -> None:
    memory, token = sample
    question, answer = questions()["relations"]

    found = memory.retrieve(question, consistency_token=token, explain=True)

    hit = next(hit for hit in found.hits if hit.id == answer)
    assert hit.ledger is not None
    [term] = hit.ledger.leg_terms
    assert term.path.count("-[") == 2, term.path


def test_unanswerable_question_finds_nothing_by_meaning(sample: tuple[Client, str]) -> None:
    memory, token = sample

    for question in read_questions(str(SAMPLE / "unanswerable.jsonl"), no_problem):
        answer = memory.retrieve(question.text, consistency_token=token)
        assert not answer.hits, (question.text, [hit.id for hit in answer.hits])


@pytest.mark.parametrize("profile", sorted(ProfileBook.load()))
def test_every_profile_answers_and_its_ledgers_add_up(
    sample: tuple[Client, str], profile: str
) -> None:
    memory, token = sample
    question, _ = questions()["words"]

    answer = memory.retrieve(question, profile=profile, consistency_token=token, explain=True)

    assert answer.hits
    assert {report.state for report in answer.leg_reports} == {LegState.OK}
    for hit in answer.hits:
        assert hit.ledger is not None
        assert hit.ledger.recompute() == pytest.approx(hit.score, abs=1e-9)
