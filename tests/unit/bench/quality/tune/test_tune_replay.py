from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.harness.collection import Query
from bench.quality.tune.coordinates import Definition, changed, reachable
from bench.quality.tune.leg_queries import Asked, NotWholeError
from bench.quality.tune.replay import ProofError, Replay, prove
from serving.domain.items.records import Item
from tests.fakes.pipeline import FixedNames
from tests.support.builders import NOON, days, fact, segment
from tests.unit.bench.quality.tune.listed_service import (
    ListedService,
    question,
    swapped,
)
from trivium.values import LegState, Retrieval

IDS = [f"s{number}" for number in range(30)]
FACTS = [f"f{number}" for number in range(12)]
WORDS = ["sail", "rent", "boiler", "piano"]
SEARCHED = ("lexical", "dense", "graph")


def random_service(draw: random.Random) -> ListedService:
    """Legs that find at random among segments of few words and two speakers."""
    items = [
        segment(
            id_,
            " ".join(draw.choices(WORDS, k=draw.randint(1, 3))),
            speaker=draw.choice(["Mel", "Ann", ""]),
            event_time=NOON - days(draw.randint(0, 400)),
        )
        for id_ in IDS
    ]

    def found(ids: list[str]) -> dict[str, float]:
        # Few different scores, so that some are equal, and some below every floor.
        some = draw.sample(ids, draw.randint(0, len(ids)))
        return {id_: draw.randint(0, 20) / 20 for id_ in some}

    facts = [
        fact(id_, "Mel", "said", id_, evidence=tuple(draw.sample(IDS, draw.randint(1, 3))))
        for id_ in FACTS
    ]
    finds = {leg: found(IDS) for leg in SEARCHED}
    return ListedService([*items, *facts], finds, facts=found(FACTS))


def random_change(draw: random.Random, service: ListedService) -> Definition:
    """A profile anywhere in what is searched, with another folding."""
    definition = changed(service.definition, "fold_from", draw.choice([None, 0.5, 0.9]))
    for coordinate in service.tried:
        if draw.random() < 0.5:
            definition = changed(definition, coordinate.path, draw.choice(coordinate.values))
    return definition


@settings(max_examples=25)
@example(seed=102570)
@given(seed=st.integers(0, 2**32))
async def test_what_is_worked_out_is_what_the_pipeline_answers(seed: int) -> None:
    draw = random.Random(seed)
    service = random_service(draw)
    asked = await service.asked(question("q", "s0"))
    replay = Replay(asked.found)
    for _ in range(10):
        definition = random_change(draw, service)
        if (profile := reachable("default", definition)) is None:
            continue

        hits = replay.hits(profile)

        service.is_under(definition)
        answer = await service.ask(asked.found.query, {}, 0)
        assert [(hit.item.item.id, hit.score) for hit in hits] == [
            (hit.id, hit.score) for hit in answer.hits
        ]
        once = replay.hits_once(profile)
        assert [(hit.item.item.id, hit.score) for hit in once] == [
            (hit.item.item.id, hit.score) for hit in hits
        ]


def small() -> ListedService:
    """A service of which every leg finds something."""
    rows: list[Item] = [segment(id_, f"Words of {id_}.") for id_ in "abcdef"]
    rows.append(fact("f1", "Mel", "said", "it", evidence=("c", "a")))
    return ListedService(
        rows,
        {
            "lexical": {"a": 3, "b": 2, "c": 1},
            "dense": {"d": 0.9, "e": 0.8, "f": 0.7},
            "graph": {"d": 0.9, "c": 0.8},
        },
        facts={"f1": 0.9},
    )


async def test_a_misheard_name_is_the_one_that_the_service_read() -> None:
    items = [segment("a", speaker="Ann"), segment("m", speaker="Mel")]
    finds = {leg: {"a": 1.0, "m": 0.9} for leg in SEARCHED}
    service = ListedService(items, finds)
    service.is_under(changed(service.definition, "signals.speaker", 1.0))
    service.names = FixedNames(Mall="Mel")
    misheard = replace(question("q", "m"), text="What did Mall say?")

    asked = await service.asked(misheard)

    assert [hit.item.id for hit in Replay(asked.found).hits(service.profile)] == ["m", "a"]
    assert [item.id for item in asked.answer] == ["m", "a"]


async def test_an_order_that_is_the_service_s_own_is_proved() -> None:
    service = small()
    asked = [await service.asked(question("q"))]

    proof = prove(asked, service.profile)

    assert (proof.agreed, proof.share, proof.differing) == (1, 1.0, [])
    assert str(proof) == "1 of 1 answers (100.0%) are the service's own"


async def test_a_list_that_was_tampered_with_is_no_proof() -> None:
    service = small()
    asked = await service.asked(question("q7"))
    tampered = replace(asked, found=swapped(asked.found, "graph"))

    with pytest.raises(ProofError, match=r"only 1 of 2 answers .* Other answers have q7 of set"):
        prove([asked, tampered], service.profile)


async def test_one_of_a_hundred_answers_may_differ() -> None:
    service = small()
    asked = await service.asked(question("q"))
    tampered = replace(asked, found=swapped(asked.found, "graph"))

    proof = prove([asked] * 99 + [tampered], service.profile)

    assert proof.differing == [("set", "q")]
    with pytest.raises(ProofError):
        prove([asked] * 98 + [tampered], service.profile)


async def test_what_has_the_same_score_may_be_in_any_order() -> None:
    rows = [segment(id_, f"Words of {id_}.") for id_ in "abc"]
    tied = {"lexical": {"a": 2.0, "b": 2.0, "c": 1.0}}
    service = ListedService(rows, tied, definition=words_alone(rank_style="dense"))
    asked = await service.asked(question("q"))
    assert [item.id for item in asked.answer] == ["a", "b", "c"]

    def other(ids: str) -> Asked:
        by_id = {item.id: item for item in asked.answer}
        return replace(asked, answer=[by_id[id_] for id_ in ids])

    assert prove([other("bac")], service.profile).share == 1
    with pytest.raises(ProofError):
        prove([other("acb")], service.profile)


def words_alone(**fields: Any) -> dict[str, Any]:
    legs = {"lexical": {"weight": 1.0, "depth": 20}}
    return {"description": "Words.", "legs": legs, **fields}


async def test_a_leg_that_leads_on_is_asked_once_for_each_beginning_that_floors_lead_to() -> None:
    service = small()

    asked = await service.asked(question("q"))

    floors = [
        changes["legs"]["dense"]["floor"]
        for changes in service.calls
        if changes and changes["legs"]["related"]["weight"]
    ]
    beginnings = asked.found.led_on["related"]
    assert len(floors) == len(set(floors)) == len(beginnings) == 1
    assert [[item.id for item in seeds] for seeds in beginnings] == [["a", "d", "b", "e", "c"]]


class Lame(ListedService):
    """Its leg of words does not answer the first so many questions."""

    def __init__(self, failures: int) -> None:
        service = small()
        super().__init__(service.items, service.finds)
        self._failures = failures

    async def ask(self, query: Query, changes: Mapping[str, Any], limit: int) -> Retrieval:
        retrieval = await super().ask(query, changes, limit)
        self._failures -= 1
        if self._failures < 0:
            return retrieval
        reports = tuple(
            replace(report, state=LegState.TIMED_OUT, reason="the budget ran out")
            for report in retrieval.leg_reports
        )
        return replace(retrieval, leg_reports=reports)


async def test_a_leg_that_did_not_answer_is_asked_again_and_not_taken_to_find_nothing() -> None:
    asked = await Lame(failures=2).asked(question("q"))

    assert len(asked.found.deep["lexical"]) == 3
    with pytest.raises(NotWholeError, match=r"'q': lexical timed out \(the budget ran out\)"):
        await Lame(failures=3).asked(question("q"))
