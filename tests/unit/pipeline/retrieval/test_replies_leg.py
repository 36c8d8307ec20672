from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import ItemId, Segment
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import Expansion
from serving.domain.ranking.profile import LegSpec, Profile
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs import RepliesLeg
from serving.pipeline.retrieval.legs.leg import Leg
from serving.pipeline.retrieval.steps import Retrieval
from serving.ports.vector_index import AdjacencyAnswer
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import BrokenLeg, FixedLeg
from tests.support.builders import NOON, query, segment
from tests.unit.pipeline.retrieval.retrieving import answered, hit_ids, some_space

TEXTS = (
    "We sail in May.",
    "Cool, where?",
    "At the lake.",
    "And who cooks?",
    "Ben, or who?",
    "Ben.",
)
TURNS = [
    segment(f"t{place}", text, session="call", event_time=NOON - timedelta(minutes=9 - place))
    for place, text in enumerate(TEXTS)
]


def indexed(turns: Sequence[Segment]) -> VectorSpace:
    engine = InMemoryIndex()
    engine.apply([segment_row(each, unit(1)) for each in turns], [])
    return VectorSpace.here(FakeEmbedder(), EngineIndex(engine))


class FollowingIndex(EngineIndex):
    """An index of what an engine gets when somebody waits for a write; or, if `late`, never."""

    def __init__(self, *, late: bool) -> None:
        self._rows = InMemoryIndex()
        self._late = late
        super().__init__(self._rows)

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        if not self._late:
            self._rows.apply([segment_row(each, unit(1)) for each in TURNS], [])
        return not self._late

    async def adjacent(
        self, query: Query, items: Sequence[ItemId], deadline: Deadline
    ) -> AdjacencyAnswer:
        stale = query.token is not None and not await self.caught_up(query.token, deadline)
        return (await super().adjacent(query, items, deadline))._replace(stale=stale)


async def ask(
    found: str | None,
    space: VectorSpace | None = None,
    seeds: int = 40,
    token: ConsistencyToken | None = None,
) -> Retrieval:
    """What the leg finds after what words find, or if these break."""
    expansion = Expansion(found_by=("lexical",), seeds=seeds)
    legs: dict[str, Leg] = {
        "lexical": BrokenLeg(RuntimeError("a bug")) if found is None else FixedLeg(found),
        "dense": FixedLeg(""),
        "replies": RepliesLeg(),
    }
    specs = (
        LegSpec(name="lexical"),
        LegSpec(name="dense"),
        LegSpec(name="replies", expansion=expansion),
    )
    profile = Profile(name="replies", legs=specs)
    asked = query("?", token=token)
    return await answered(TURNS, legs, profile, asked, space=space or indexed(TURNS))


async def test_replies_follow_the_questions_that_words_find() -> None:
    answer = await ask("t1 t3 t0")

    assert hit_ids(answer) == ["t1", "t2", "t3", "t4", "t0"]
    terms = [
        (hit.item.id, term.rank, term.path)
        for hit in answer.hits
        for term in hit.ledger.leg_terms
        if term.leg == "replies"
    ]
    assert terms == [("t2", 1, "after t1"), ("t4", 2, "after t3")]


async def test_replies_follow_only_the_first_candidates() -> None:
    answer = await ask("t0 t1", seeds=1)

    assert hit_ids(answer) == ["t0", "t1"]


@pytest.mark.parametrize(
    ("late", "state", "found"),
    [(False, LegState.OK, ["t1", "t2"]), (True, LegState.STALE, ["t1"])],
)
async def test_replies_wait_for_the_write_of_the_token(
    late: bool, state: LegState, found: list[str]
) -> None:
    space = VectorSpace.here(FakeEmbedder(), FollowingIndex(late=late))

    answer = await ask("t1", space, token=ConsistencyToken.of("1", [5]))

    assert (answer.reports[2].state, hit_ids(answer)) == (state, found)


@pytest.mark.parametrize(
    ("found", "space", "reason"),
    [
        ("t1", some_space(), "no shard of the index knows all turns of a session"),
        (None, None, "no candidate to start from; lexical: internal error"),
    ],
)
async def test_replies_are_skipped_without_index_or_words(
    found: str | None, space: VectorSpace | None, reason: str
) -> None:
    answer = await ask(found, space)

    report = answer.reports[2]
    assert (report.leg, report.state, report.reason) == ("replies", LegState.SKIPPED, reason)
