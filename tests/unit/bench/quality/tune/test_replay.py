from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.harness.collection import Query
from bench.quality.tune.coordinates import Definition, accepted, changed
from bench.quality.tune.leg_lists import IncompleteError
from bench.quality.tune.replay import Replay, ReplayError, check_replay
from serving.domain.items.records import Item
from tests.fakes.pipeline import FixedNames
from tests.support.builders import NOON, days, fact, segment
from tests.unit.bench.quality.tune.listed_service import ListedService, question
from trivium.values import LegState, Retrieval

IDS = [f"s{number}" for number in range(30)]
FACTS = [f"f{number}" for number in range(12)]
WORDS = ["sail", "rent", "boiler", "piano"]
LISTED = ("lexical", "dense", "graph")


def random_service(draw: random.Random) -> ListedService:
    """Legs that find at random among segments of few words and two speakers."""
    items: list[Item] = [
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

    items += [
        fact(id_, "Mel", "said", id_, evidence=tuple(draw.sample(IDS, draw.randint(1, 3))))
        for id_ in FACTS
    ]
    finds = {leg: found(IDS) for leg in LISTED}
    return ListedService(items, finds, facts=found(FACTS))


def random_change(draw: random.Random, service: ListedService) -> Definition:
    """A profile anywhere in the search, with another folding."""
    definition = changed(service.definition, "fold_repeats", draw.choice([False, True]))
    for coordinate in service.tried:
        if draw.random() < 0.5:
            definition = changed(definition, coordinate.path, draw.choice(coordinate.values))
    return definition


@settings(max_examples=25)
@example(seed=102570)
@given(seed=st.integers(0, 2**32))
async def test_replay_is_the_answer_of_the_pipeline(seed: int) -> None:
    draw = random.Random(seed)
    service = random_service(draw)
    lists = await service.lists(question("q", "s0"))
    replay = Replay(lists)
    for _ in range(10):
        definition = random_change(draw, service)
        if (profile := accepted("default", definition)) is None:
            continue

        hits = replay.hits(profile)

        service.is_under(definition)
        answer = await service.ask(lists.query, {}, 0)
        assert [item.id for item in hits] == [hit.id for hit in answer.hits]
        scores = replay.scores(profile)
        # A newer repeat may be among the rows that only the scores read: it then stands for a hit.
        shown = [(item, hit) for item, hit in zip(hits, answer.hits, strict=True) if item in scores]
        assert [scores[item] for item, _ in shown] == [hit.score for _, hit in shown]
        assert profile.fold_repeats or len(shown) == len(hits)


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


async def test_replay_reads_corrected_names() -> None:
    items = [segment("a", speaker="Ann"), segment("m", speaker="Mel")]
    service = ListedService(items, {leg: {"a": 1.0, "m": 0.9} for leg in LISTED})
    service.is_under(changed(service.definition, "signals.speaker", 1.0))
    service.names = FixedNames(Mall="Mel")
    misheard = replace(question("q", "m"), text="What did Mall say?")

    lists = await service.lists(misheard)

    assert [item.id for item in Replay(lists).hits(service.profile)] == ["m", "a"]
    assert [item.id for item in lists.answer] == ["m", "a"]


async def test_more_than_one_percent_of_differences_is_rejected() -> None:
    service = small()
    lists = await service.lists(question("q"))
    other = replace(lists, answer=lists.answer[::-1])
    replays = [Replay(lists)] * 98

    agreement = check_replay([*replays, Replay(lists), Replay(other)], service.profile)

    assert str(agreement) == "99 of 100 answers (99.0%) agree"
    with pytest.raises(ReplayError, match=r"only 98 of 99 .* differ for q of set"):
        check_replay([*replays, Replay(other)], service.profile)


async def test_equal_scores_may_be_in_any_order() -> None:
    rows = [segment(id_, f"Words of {id_}.") for id_ in "abc"]
    definition = {
        "description": "Words.",
        "rank_style": "dense",
        "legs": {"lexical": {"weight": 1.0, "depth": 20}},
    }
    tied = {"lexical": {"a": 2.0, "b": 2.0, "c": 1.0}}
    service = ListedService(rows, tied, definition=definition)
    lists = await service.lists(question("q"))
    a, b, c = lists.answer

    def other(*answer: Any) -> list[Replay]:
        return [Replay(replace(lists, answer=answer))]

    assert check_replay(other(b, a, c), service.profile).share == 1
    with pytest.raises(ReplayError):
        check_replay(other(a, c, b), service.profile)


class Failing(ListedService):
    """Its legs time out in the first answers."""

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


async def test_timed_out_leg_is_queried_again() -> None:
    lists = await Failing(failures=2).lists(question("q"))

    assert len(lists.deep["lexical"]) == 3
    with pytest.raises(IncompleteError, match=r"'q': lexical timed out \(the budget ran out\)"):
        await Failing(failures=3).lists(question("q"))
