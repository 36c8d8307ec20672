"""A service over given lists: the real pipeline with legs that return them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.harness.collection import Query
from bench.quality.tune.coordinates import Coordinate, Definition, coordinates
from bench.quality.tune.leg_lists import LegLists, query_legs
from serving.adapters.text_analysis.english_dates import EnglishDates
from serving.config.profiles import ProfileBook
from serving.domain.budget import Deadline
from serving.domain.items.records import Fact, Item, ItemId, ItemKind, segment_id
from serving.domain.questions.query import Query as DomainQuery
from serving.domain.ranking.profile import Profile
from serving.domain.ranking.ranked_list import Candidate, above_floor
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.index.vector_spaces import VectorSpaces
from serving.pipeline.retrieval.leg_runner import LegRunner
from serving.pipeline.retrieval.legs import FactsLeg, RelatedLeg
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.pipeline.retrieval.retrieve import Retriever
from serving.pipeline.retrieval.steps import RetrievalSteps
from serving.ports.embedding import VectorLike
from serving.ports.vector_index import IndexAnswer, WantedNeighbours
from serving.ports.words import NameResolver
from serving.rpc.answers import from_retrieval
from serving.rpc.questions import to_retrieve_call
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FakeEmbedder
from tests.fakes.pipeline import FixedConsistency, FixedIndex, RecordingAccess
from tests.support.builders import A_DAY_LATER, TENANT
from tests.unit.pipeline.retrieval.retrieving import store_of
from trivium import values
from trivium.v1 import retrieval_service_pb2
from trivium.wire import requests, responses

Scores = Mapping[str, float]
"""What a leg finds: ids with their scores."""


def definition_of(name: str = "default") -> Definition:
    """A shipped profile, as the service lists it."""
    return ProfileBook.load().definition(name)


def best_first(scores: Scores, kind: ItemKind = ItemKind.SEGMENT) -> list[Candidate]:
    """The candidates of a leg."""
    ordered = sorted(scores.items(), key=lambda each: (-each[1], each[0]))
    return [Candidate(ItemId(kind, id_), score) for id_, score in ordered]


@dataclass(frozen=True, slots=True)
class ListedLeg(Leg):
    """A leg with given results, to the depth and above the floor of the request."""

    scores: Scores

    async def find(self, request: LegRequest) -> LegAnswer:
        found = best_first(self.scores)[: request.depth]
        return LegAnswer(*above_floor(found, request.spec.floor))


class ListedFacts(FixedIndex):
    """An index that finds facts by given scores."""

    def __init__(self, scores: Scores, evidence: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__()
        self._scores = scores
        self._evidence = evidence

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        found = best_first(self._scores, ItemKind.FACT)[: wanted.depth]
        return IndexAnswer(found, epoch=1, evidence=self._evidence)


class ShuffledGraph(InMemoryGraph):
    """A graph in which everything is related to any seeds, in an order that these decide."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__()
        self._ids = ids

    async def related(
        self, query: DomainQuery, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> list[Candidate]:
        draw = random.Random("/".join(seed.id for seed in seeds))
        found = draw.sample(self._ids, len(self._ids))
        return [Candidate(segment_id(id_), 1 / place) for place, id_ in enumerate(found, 1)][:depth]


class ListedService:
    """Finds for every question what it is given, and ranks it as the service does.

    Args:
        items: All that is stored.
        finds: What the legs of segments find.
        facts: What the leg of facts finds.
        definition: Of the profile `default`.
    """

    def __init__(
        self,
        items: Sequence[Item],
        finds: Mapping[str, Scores],
        *,
        facts: Scores | None = None,
        definition: Definition | None = None,
    ) -> None:
        self.items = items
        self.finds = finds
        self.is_under(definition or definition_of())
        segments = [item.id for item in items if item.item.kind is ItemKind.SEGMENT]
        consistency = FixedConsistency()
        # No time is named, and no turn is before another.
        finds = {"temporal": {}, "context": {}, **finds}
        legs: dict[str, Leg] = {leg: ListedLeg(scores) for leg, scores in finds.items()}
        legs |= {"facts": FactsLeg(), "related": RelatedLeg(ShuffledGraph(segments), consistency)}
        evidence = {item.id: item.evidence for item in items if isinstance(item, Fact)}
        index = ListedFacts(facts or {}, evidence)
        self._legs = LegRunner(legs, consistency)
        self._spaces = VectorSpaces(VectorSpace.of(FakeEmbedder(), index))
        self.names: NameResolver | None = None

    def is_under(self, definition: Definition) -> None:
        """Gives the profile another definition."""
        self.definition = definition
        self.book = ProfileBook({"default": definition})

    async def ask(self, query: Query, changes: Mapping[str, Any], limit: int) -> values.Retrieval:
        """Asks as a client would."""
        request = requests.retrieve(
            TENANT,
            query.text,
            timeout=30,
            profile="default",
            limit=limit,
            profile_overrides=changes,
            explain=True,
            as_of=query.as_of,
        )
        return responses.to_retrieval(await self.retrieve(request))

    async def retrieve(
        self, request: retrieval_service_pb2.RetrieveRequest
    ) -> retrieval_service_pb2.RetrieveResponse:
        """Answers as the service would."""
        call = to_retrieve_call(request, self.book, A_DAY_LATER)
        access = RecordingAccess()
        steps = RetrievalSteps(
            legs=self._legs,
            spaces=self._spaces,
            store=await store_of(*self.items),
            access=access,
            dates=EnglishDates(),
            names=self.names,
        )
        deadline = Deadline.after(call.time_budget_s)
        retrieval = await Retriever(steps, access).retrieve(call.query, call.profile, deadline)
        return from_retrieval(call, retrieval)

    @property
    def profile(self) -> Profile:
        """The profile as it stands."""
        return self.book["default"]

    @property
    def tried(self) -> list[Coordinate]:
        """What a search may change in it."""
        return coordinates(self.definition, self.profile)

    async def lists(self, query: Query, set_: str = "set") -> LegLists:
        """All that a search needs to know of a question."""
        rows = {item.item: item for item in self.items}
        return await query_legs(self.ask, self.profile, set_, query, rows)


def question(id_: str = "q", *relevant: str, tenant: str = TENANT) -> Query:
    """A judged question, in which Mel is named."""
    return Query(
        id=id_,
        tenant=tenant,
        text="What did Mel say?",
        as_of=A_DAY_LATER,
        relevant=frozenset(relevant),
    )


def listed(
    lists: Mapping[str, str], query: Query, rows: Sequence[Item], set_: str = "set"
) -> LegLists:
    """The results of legs, best first: `{"lexical": "a b"}`."""
    deep = {
        leg: [Candidate(segment_id(id_), 1 / place) for place, id_ in enumerate(ids.split(), 1)]
        for leg, ids in lists.items()
    }
    stored = {row.item: row for row in rows}
    return LegLists(set=set_, query=query, as_of=A_DAY_LATER, rows=stored, deep=deep)
