from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from serving.adapters.resident import TenantsInMemory
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import (
    AllLegsFailedError,
    DependencyError,
    NotReadyError,
    RequiredLegsError,
    StoreUnavailableError,
)
from serving.domain.items.period import Period
from serving.domain.items.records import Item, Segment, TenantName, fact_id, segment_id
from serving.domain.questions.query import Filter, Query, TenantWeight
from serving.domain.ranking.profile import Diversity, LegSpec, Profile, Rerank, SignalSpec
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval import legs
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs import DenseLeg
from serving.pipeline.retrieval.legs.leg import (
    NOTHING_TO_LOOK_UP,
    Leg,
    LegAnswer,
    LegRequest,
    LegSkippedError,
)
from serving.pipeline.retrieval.retrieve import Retriever
from serving.pipeline.retrieval.steps import Retrieval
from serving.ports.memory_store import Batch
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FakeEmbedder
from tests.fakes.pipeline import (
    BrokenLeg,
    FixedConsistency,
    FixedDates,
    FixedIndex,
    FixedLeg,
    FixedReranker,
    HangingLeg,
    RecordingAccess,
)
from tests.fakes.resident_feed import InMemoryFeed
from tests.fakes.store import InMemoryStore
from tests.fakes.words import InMemoryWords
from tests.support.builders import NOON, TENANT, batch_of, days, fact, ids, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import (
    TWO_LEGS,
    ReadStore,
    answered,
    hit_ids,
    retriever,
    soon,
    space_of,
    states,
    steps,
    store_of,
)

TIMED = replace(TWO_LEGS, signals=(SignalSpec(name="time", weight=1.0),))
SOME_TIME = Period(NOON - days(3), NOON - days(1))
TOKEN = ConsistencyToken.of("in-memory", [7])
FACTS = Profile(name="f", legs=(LegSpec(name="facts"),))


async def test_fused_hits_name_their_legs() -> None:
    stored = [segment("a", "one"), segment("b", "two"), segment("c", "three")]
    legs = {"lexical": FixedLeg("a b"), "dense": FixedLeg("c b")}

    answer = await answered(stored, legs, TWO_LEGS)

    assert hit_ids(answer) == ["b", "a", "c"]
    assert [term.leg for term in answer.hits[0].ledger.leg_terms] == ["lexical", "dense"]


@pytest.mark.parametrize(
    ("leg", "state", "reason"),
    [
        (BrokenLeg(DependencyError("graph", "refused")), LegState.FAILED, "graph: refused"),
        (BrokenLeg(RuntimeError("secret")), LegState.FAILED, "internal error"),
        (BrokenLeg(TimeoutError()), LegState.TIMED_OUT, "the budget ran out"),
        (BrokenLeg(LegSkippedError("nothing to ask")), LegState.SKIPPED, "nothing to ask"),
        (BrokenLeg(NotReadyError("index", "filling 3 %")), LegState.SKIPPED, "filling 3 %"),
    ],
)
async def test_failed_leg_is_reported_and_others_are_used(
    leg: Leg, state: LegState, reason: str
) -> None:
    answer = await answered([segment("a")], {"lexical": FixedLeg("a"), "dense": leg}, TWO_LEGS)

    assert hit_ids(answer) == ["a"]
    assert (answer.reports[1].state, answer.reports[1].reason) == (state, reason)


async def test_all_legs_failing_is_an_error_with_each_reason() -> None:
    broken = BrokenLeg(DependencyError("x", "gone"))

    with pytest.raises(AllLegsFailedError) as failed:
        await answered([], {"lexical": broken, "dense": broken}, TWO_LEGS)

    assert failed.value.reasons == {"lexical": "x: gone", "dense": "x: gone"}


@pytest.mark.parametrize(
    ("lexical", "available"),
    [(FixedLeg("a"), False), (BrokenLeg(StoreUnavailableError("gone")), True)],
    ids=["rows", "words"],
)
async def test_unreachable_postgres_fails_the_request(lexical: Leg, available: bool) -> None:
    store = await store_of(segment("a"))
    store.available = available

    with pytest.raises(StoreUnavailableError):
        await answered(store, {"lexical": lexical, "dense": FixedLeg()}, TWO_LEGS)


async def test_a_stale_leg_is_used_and_reported() -> None:
    legs = {"dense": FixedLeg("a", stale=True)}

    answer = await answered([segment("a")], legs, TWO_LEGS, query("?", token=TOKEN))

    assert hit_ids(answer) == ["a"]
    assert states(answer)["dense"] is LegState.STALE


@pytest.mark.parametrize(
    ("token", "stale", "lacking"),
    [(TOKEN, True, (2, 7)), (TOKEN, False, (2, 0)), (None, False, (0, 7))],
    ids=["behind the token", "waited for the token", "no token"],
)
async def test_dead_or_pending_rows_are_counted_per_leg(
    token: ConsistencyToken | None, stale: bool, lacking: tuple[int, int]
) -> None:
    consistency = FixedConsistency(dead_letters={"embedding": 2}, pending={"embedding": 7})
    legs = {"lexical": FixedLeg(), "dense": FixedLeg(stale=stale)}
    asked = query("?", token=token)

    answer = await answered([], legs, TWO_LEGS, asked, consistency=consistency)

    lacks = [(report.dead_letter_count, report.pending) for report in answer.reports]
    assert lacks == [(0, 0), lacking]


async def test_a_leg_of_weight_zero_is_not_asked() -> None:
    dense = FixedLeg("a")
    profile = replace(TWO_LEGS, legs=(LegSpec(name="lexical"), LegSpec(name="dense", weight=0)))

    answer = await answered([], {"lexical": FixedLeg(), "dense": dense}, profile)

    assert not dense.requests
    assert states(answer)["dense"] is LegState.SKIPPED


async def test_erased_or_hidden_rows_are_not_shown() -> None:
    stored = [
        segment("fits", "one", speaker="Mel"),
        segment("later", "two", speaker="Mel", event_time=NOON + days(5)),
        segment("other", "three", speaker="Tom"),
    ]
    legs = {"dense": FixedLeg("later gone other fits")}
    narrow = query("?", scope=scope(filter_=Filter(speakers=("mel",))))

    answer = await answered(stored, legs, TWO_LEGS, narrow)

    assert hit_ids(answer) == ["fits"]
    assert answer.vanished == 3


async def test_only_items_recorded_by_then_are_shown() -> None:
    long_ago = {"valid_from": NOON - days(9), "recorded_at": NOON - days(9)}
    store = await store_of(
        segment("said"),
        fact("old", "Mel", "lives in", "Rome", **long_ago),
        fact("new", "Mel", "lives in", "Oslo", valid_from=NOON - days(5), closes=("old",)),
    )
    legs = {"facts": FixedLeg([segment_id("said"), fact_id("new"), fact_id("old")])}

    async def shown(known_at: datetime | None) -> list[str]:
        asked = query("?", scope=scope(known_at=known_at))
        return hit_ids(await answered(store, legs, FACTS, asked))

    assert await shown(None) == ["said", "new"]
    assert await shown(NOON - days(1)) == ["old"]
    assert await shown(NOON) == ["new"]


async def test_a_fact_is_shown_only_while_it_holds() -> None:
    stored = [
        fact("over", "Mel", "lives in", "Oslo", valid_to=NOON),
        fact("now", "Mel", "lives in", "Rome", valid_from=NOON - days(1)),
        fact("wrong", "Mel", "lives in", "Bern", retracted_at=NOON),
    ]

    answer = await answered(stored, {"facts": FixedLeg([each.item for each in stored])}, FACTS)

    assert hit_ids(answer) == ["now"]


async def test_expired_items_are_in_no_answer() -> None:
    stored: list[Item] = [
        segment("kept", "one", expires_at=NOON + days(2)),
        segment("old", "We sailed to Goa."),
        segment(
            "gone", "We sailed to Goa.", event_time=NOON + days(0.5), expires_at=NOON + days(1)
        ),
        fact("f", "Mel", "saw", "Goa", expires_at=NOON + days(1)),
        fact("resting", "Mel", "saw", "Goa", evidence=("gone",)),
    ]
    # Words find the repeats equal, so what is gone must not stand for what is left.
    legs = {"lexical": FixedLeg("old=gone"), "facts": FixedLeg([each.item for each in stored])}
    profile = replace(FACTS, legs=(LegSpec(name="lexical"), *FACTS.legs))

    async def shown(after: float) -> list[str]:
        asked = query("?", scope=scope(as_of=NOON + days(after)))
        answer = await answered(stored, legs, profile, asked)
        folded = [each.id for hit in answer.hits for each in hit.folded]
        return sorted([*hit_ids(answer), *folded])

    assert await shown(0.9) == ["f", "gone", "kept", "old", "resting"]
    assert await shown(1) == ["kept", "old"]
    assert await shown(2) == ["old"]


async def test_segments_near_a_named_time_come_first() -> None:
    store = await store_of(
        *(
            segment(month, f"We sailed in {month}", event_time=NOON + days(after))
            for month, after in (("march", -90), ("june", 0), ("july", 30))
        )
    )
    dates = FixedDates(SOME_TIME)
    service = retriever(store, {"dense": FixedLeg("march july june")}, dates=dates)
    asked = query("Who sailed in June?", scope=scope(as_of=NOON + days(60)))

    plain = await service.retrieve(asked, TWO_LEGS, soon())
    before = list(dates.asked)
    answer = await service.retrieve(asked, TIMED, soon())

    assert hit_ids(plain) == ["march", "july", "june"]
    assert before == []
    assert hit_ids(answer) == ["june", "march", "july"]
    assert dates.asked == [("Who sailed in June?", NOON + days(60))]
    assert [term.leg for term in answer.hits[0].ledger.leg_terms] == ["dense", "time"]


@pytest.mark.parametrize(
    ("asked", "zone"), [(None, "Asia/Kolkata"), (ZoneInfo("Europe/Lisbon"), "Europe/Lisbon")]
)
async def test_question_without_time_zone_has_its_tenants(asked: tzinfo | None, zone: str) -> None:
    store = InMemoryStore()
    await store.write(Batch(TENANT, [segment("a")], time_zone=ZoneInfo("Asia/Kolkata")))
    dates = FixedDates(SOME_TIME)
    asks = query("Who sailed?", time_zone=asked)

    answer = await answered(store, {"dense": FixedLeg("a")}, TIMED, asks, dates=dates)

    assert [str(at.tzinfo) for _, at in dates.asked] == [zone]
    assert str(answer.time_zone) == zone


async def test_repeats_are_folded_into_the_newest() -> None:
    password = "The wifi password is sunflower-22."
    stored = [
        *(segment(f"w{n}", password, event_time=NOON + days(n / 24)) for n in range(5)),
        segment("other", "The guest wifi is open."),
        segment("bo", password, speaker="Bo"),
    ]

    answer = await answered(stored, {"dense": FixedLeg("w1 w4 bo w0 other")}, TWO_LEGS)

    assert hit_ids(answer) == ["w4", "bo", "other"]
    assert [each.id for each in answer.hits[0].folded] == ["w1", "w0"]
    assert answer.folded == 2


@pytest.mark.parametrize(
    ("second", "folded"), [("two", 0), ("one", 1)], ids=["other texts", "a repeat"]
)
async def test_tied_and_shown_rows_are_read_once(second: str, folded: int) -> None:
    store = ReadStore()
    said = {"a": "one", "b": second, "c": "three", "d": "four"}
    await store.write(batch_of(*(segment(id_, text) for id_, text in said.items())))
    legs = {"lexical": FixedLeg("a=b c"), "dense": FixedLeg("c d")}

    answer = await answered(store, legs, TWO_LEGS)

    assert answer.folded == folded
    assert [sorted(each.id for each in read) for read in store.reads] == [["a", "b", "c", "d"]]


async def test_the_limit_is_filled_although_the_first_rows_are_gone() -> None:
    names = [f"s{place:02}" for place in range(20)]
    stored = [segment(name, f"words {name}") for name in names[15:]]
    legs = {"dense": FixedLeg(" ".join(names))}

    answer = await answered(stored, legs, replace(TWO_LEGS, limit=3))

    assert hit_ids(answer) == ["s15", "s16", "s17"]


async def test_seeds_that_represent_no_entity_are_reported() -> None:
    stored = [segment("fuse", entity="fuse"), segment("turn")]
    asked = query("?", seeds=("fuse", "turn", "nobody"))

    answer = await answered(stored, {"dense": FixedLeg("turn")}, TWO_LEGS, asked)

    assert answer.unknown_seeds == ("turn", "nobody")


async def test_shown_hits_are_counted_as_accessed() -> None:
    access = RecordingAccess()

    await answered([segment("a")], {"dense": FixedLeg("a gone")}, TWO_LEGS, access=access)

    assert access.recorded == ids("a")


@pytest.mark.parametrize(
    ("leg", "split", "embedded"),
    [
        (DenseLeg(RecordingAccess()), False, ["Who is Mel? And where?"]),
        (DenseLeg(RecordingAccess()), True, ["Who is Mel?", "And where?"]),
        (FixedLeg(), True, []),
    ],
    ids=["whole", "split", "not needed"],
)
async def test_profile_may_embed_every_question_of_a_text(
    leg: Leg, split: bool, embedded: list[str]
) -> None:
    embedder = FakeEmbedder()
    space = VectorSpace.of(embedder, FixedIndex())
    name = "dense" if embedded else "lexical"
    profile = Profile(name="split", legs=(LegSpec(name=name),), split_questions=split)

    await answered([], {name: leg}, profile, query("Who is Mel? And where?"), space=space)

    assert embedder.queries == embedded


@pytest.mark.parametrize(
    ("dense", "why"),
    [
        (HangingLeg(), "the budget ran out"),
        (BrokenLeg(DependencyError("index", "gone")), "index: gone"),
        (BrokenLeg(LegSkippedError("no vector")), "no vector"),
        (FixedLeg("a", stale=True), "not there yet"),
    ],
)
async def test_an_answer_without_a_required_leg_is_none(dense: Leg, why: str) -> None:
    answering = retriever(await store_of(segment("a")), {"lexical": FixedLeg("a"), "dense": dense})
    required = query("?", required=frozenset({"dense"}), token=TOKEN)
    other = query("?", required=frozenset({"lexical"}))

    with pytest.raises(RequiredLegsError) as caught:
        await answering.retrieve(required, TWO_LEGS, Deadline.after(0.5))
    without = await answering.retrieve(other, TWO_LEGS, Deadline.after(0.5))

    assert list(caught.value.metadata) == ["dense"]
    assert why in caught.value.metadata["dense"]
    assert hit_ids(without) == ["a"]


class LegOverFacts(FixedLeg):
    """A leg that a memory without facts need not ask."""

    needs_facts = True


WITH_GRAPH = Profile(name="two", legs=(LegSpec(name="lexical"), LegSpec(name="graph", floor=0.2)))
OVER_FACTS = {"lexical": FixedLeg("a"), "graph": LegOverFacts("a")}


async def test_without_facts_legs_over_facts_are_skipped() -> None:
    leg = LegOverFacts("b")
    legs = {"lexical": FixedLeg("a"), "graph": leg}

    answer = await answered([segment("a"), segment("b")], legs, WITH_GRAPH)

    assert states(answer) == {"lexical": LegState.OK, "graph": LegState.SKIPPED}
    assert answer.reports[1].reason == NOTHING_TO_LOOK_UP
    assert hit_ids(answer) == ["a"]
    assert leg.requests == []


class StoreThatCannotTell(InMemoryStore):
    """Fails to say whether there are facts."""

    async def has_facts(self, *_: object) -> bool:
        raise TimeoutError


@pytest.mark.parametrize(
    ("store", "asked"),
    [
        (InMemoryStore(), query("?", required=frozenset({"graph"}))),
        (InMemoryStore(), query("?", seeds=("a",))),
        (StoreThatCannotTell(), query("?")),
    ],
    ids=["required", "seeds", "unknown"],
)
async def test_leg_over_unknown_or_wanted_facts_is_asked(
    store: InMemoryStore, asked: Query
) -> None:
    await store.write(batch_of(segment("a", entity="Ann"), segment("b")))

    answer = await answered(store, OVER_FACTS, WITH_GRAPH, asked)

    assert states(answer)["graph"] is LegState.OK


class YieldingLeg(FixedLeg):
    """Notes how many legs have begun once the event loop has served the others."""

    def __init__(self, other: FixedLeg) -> None:
        super().__init__("a")
        self._other = other
        self.others_begun = 0

    async def find(self, request: LegRequest) -> LegAnswer:
        await asyncio.sleep(0)
        self.others_begun = len(self._other.requests)
        return await super().find(request)


async def test_legs_over_known_facts_begin_with_the_others() -> None:
    over_facts = LegOverFacts("a")
    first = YieldingLeg(over_facts)
    stored: list[Item] = [segment("a"), fact("f", "Ann", "sails", "Goa")]

    await answered(stored, {"lexical": first, "graph": over_facts}, WITH_GRAPH)

    assert first.others_begun == 1


# ---------------------------------------------------------------- answers from memory


ITEMS = (
    segment("a", "We sailed to Goa.", entities=("Mara",)),
    segment("b", "It rained.", speaker="Mara"),
    fact("f", "Mara", "loves", "Goa", evidence=("a",)),
)
WORDS_AND_GRAPH = Profile(
    name="p", legs=(LegSpec(name="lexical"), LegSpec(name="graph")), fold_repeats=False
)
ASKED = query("Does Mara like Goa?")


class CountedWords(InMemoryWords):
    asked = 0

    async def search(self, *asked: Any) -> list[Candidate]:
        self.asked += 1
        return await super().search(*asked)


class World:
    """A store, what is in memory of it, and the legs over both."""

    def __init__(self) -> None:
        self.store = ReadStore()
        self.feed = InMemoryFeed()
        self.view = TenantsInMemory(self.feed, 2**30)
        self.words = CountedWords(self.store)
        self.legs = {
            "lexical": legs.LexicalLeg(self.words),
            "graph": legs.GraphLeg(InMemoryGraph(), FixedConsistency()),
        }

    async def ask(self, profile: Profile = WORDS_AND_GRAPH) -> Retrieval:
        behind = FixedConsistency(pending={"graph": 7})
        asked = steps(self.store, self.legs, view=self.view, consistency=behind)
        answering = Retriever(asked, RecordingAccess())
        return await answering.retrieve(ASKED, profile, soon())


async def loaded() -> World:
    world = World()
    await world.store.write(batch_of(*ITEMS))
    world.feed.put(*ITEMS)
    await world.view.load(TENANT, Deadline.after(60))
    return world


async def test_tenant_in_memory_is_answered_without_the_stores() -> None:
    world = await loaded()

    answer = await world.ask()

    assert hit_ids(answer) == ["a", "b"]
    assert [(report.in_memory, report.pending) for report in answer.reports] == [(True, 0)] * 2
    assert (world.words.asked, world.store.reads) == (0, [])


@pytest.mark.parametrize(
    ("in_memory", "written"),
    [(False, ()), (True, (segment("c"),))],
    ids=["not in the profile", "with unapplied writes"],
)
async def test_tenant_not_wholly_in_memory_asks_the_stores(
    in_memory: bool, written: Sequence[Segment]
) -> None:
    world = await loaded()
    world.feed.put(*written)

    answer = await world.ask(replace(WORDS_AND_GRAPH, in_memory=in_memory))

    assert [(each.in_memory, each.pending) for each in answer.reports] == [(False, 0), (False, 7)]
    assert world.words.asked == 1
    assert world.store.reads


async def test_late_leg_in_memory_times_out() -> None:
    world = await loaded()
    answering = steps(world.store, world.legs, view=world.view)

    results = await answering.run_legs(ASKED, WORDS_AND_GRAPH, Deadline.after(0))

    assert [each.report.state for each in results] == [LegState.TIMED_OUT] * 2


class NotedDense(legs.DenseLeg):
    """Notes the task in which it searches."""

    task: asyncio.Task[object] | None = None

    async def find(self, request: LegRequest) -> LegAnswer:
        self.task = asyncio.current_task()
        return await super().find(request)


@pytest.mark.parametrize("is_here", [True, False])
async def test_leg_at_hand_needs_no_task(*, is_here: bool) -> None:
    store, leg, space = await store_of(*ITEMS), NotedDense(RecordingAccess()), space_of(*ITEMS[:1])
    if not is_here:
        space = VectorSpace.of(FakeEmbedder(), space.index)
    profile = Profile(name="p", legs=(LegSpec(name="dense", least_score=-1.0),))

    found = (await steps(store, {"dense": leg}, space=space).run(ASKED, profile, soon())).retrieval

    assert states(found) == {"dense": LegState.OK}
    assert (leg.task is asyncio.current_task()) == is_here


# ---------------------------------------------------------------- several tenants


ONE_LEG = Profile(name="one", legs=(LegSpec(name="dense"),), rank_constant=1, limit=4)
MINE, FAMILY, HOUSE = TenantName("mine"), TenantName("family"), TenantName("house")
TEXTS = ["We ate cake.", "The bus is late.", "Bring a towel.", "Lisbon was warm.", "No pets."]


class LegOfTenants(Leg):
    """Finds what its legs of the tenants find; a tenant without one is a failure."""

    def __init__(self, **found: str) -> None:
        self._legs = {TenantName(tenant): FixedLeg(items) for tenant, items in found.items()}
        self.asked: list[Query] = []

    async def find(self, request: LegRequest) -> LegAnswer:
        self.asked.append(request.query)
        tenant = request.query.scope.tenant
        if tenant not in self._legs:
            raise DependencyError("index", "gone")
        return await self._legs[tenant].find(request)


def to(*tenants: TenantName, **weights: float) -> Query:
    """A query to tenants, with weights where given."""
    several = tuple(TenantWeight(name, weights.get(name, 1.0)) for name in tenants)
    return query("?", scope=scope(tenants[0]), tenants=several)


async def ask(
    leg: Leg,
    asked: Query,
    profile: Profile = ONE_LEG,
    texts: Mapping[str, str] = {},
    access: RecordingAccess | None = None,
    reranker: FixedReranker | None = None,
) -> Retrieval:
    store = InMemoryStore()
    for tenant in asked.tenants:
        items: list[Item] = [
            segment(id_, texts.get(id_, f"{text} {tenant.tenant}"))
            for id_, text in zip("abcde", TEXTS, strict=True)
        ]
        await store.write(Batch(tenant.tenant, items))
    answering = retriever(store, {"dense": leg}, access=access, reranker=reranker)
    return await answering.retrieve(asked, profile, soon())


def whose(answer: Retrieval) -> list[str]:
    return [f"{hit.tenant} {hit.item.id}" for hit in answer.hits]


async def test_tenants_are_one_list_by_weight() -> None:
    leg = LegOfTenants(mine="a b", family="c d")

    answer = await ask(leg, to(MINE, FAMILY, family=1.4))

    assert whose(answer) == ["family c", "mine a", "family d", "mine b"]
    assert [hit.ledger.tenant_weight for hit in answer.hits] == [1.4, 1.0, 1.4, 1.0]
    for hit in answer.hits:
        alone = replace(hit.ledger, tenant_weight=None).score
        assert math.isclose(hit.score, alone * (hit.ledger.tenant_weight or 0))


async def test_equal_ids_of_two_tenants_are_two_hits() -> None:
    answer = await ask(LegOfTenants(mine="a", family="a"), to(MINE, FAMILY))

    assert sorted(whose(answer)) == ["family a", "mine a"]
    assert {hit.text.split()[-1] for hit in answer.hits} == {"mine", "family"}


async def test_limit_is_that_of_the_whole_answer() -> None:
    answer = await ask(LegOfTenants(mine="a b c d e", family="a b c d e"), to(MINE, FAMILY))

    assert len(answer.hits) == ONE_LEG.limit
    assert answer.candidates == 10


@pytest.mark.parametrize("required", [frozenset[str](), frozenset({"dense"})])
async def test_failed_tenant_is_labelled_and_others_answer(required: frozenset[str]) -> None:
    asked = replace(to(MINE, FAMILY, HOUSE), required=required)

    answer = await ask(LegOfTenants(family="a"), asked)

    assert whose(answer) == ["family a"]
    assert [(each.tenant, each.leg, each.state) for each in answer.reports] == [
        (MINE, "dense", LegState.FAILED),
        (FAMILY, "dense", LegState.OK),
        (HOUSE, "dense", LegState.FAILED),
    ]
    assert "index: gone" in answer.reports[0].reason


async def test_failure_of_every_tenant_is_an_error() -> None:
    with pytest.raises(AllLegsFailedError):
        await ask(LegOfTenants(), to(MINE, FAMILY))


async def test_tenants_are_asked_within_their_own_scopes() -> None:
    leg = LegOfTenants(mine="a", family="b")

    await ask(leg, to(MINE, FAMILY))

    assert [each.scope.tenant for each in leg.asked] == [MINE, FAMILY]
    assert [each.shared_with for each in leg.asked] == [MINE, MINE]
    assert not any(each.tenants for each in leg.asked)


async def test_shown_hits_are_recorded_with_their_tenants() -> None:
    access = RecordingAccess()

    await ask(LegOfTenants(mine="a b", family="c"), to(MINE, FAMILY), access=access)

    assert access.by_tenant == {MINE: ids("a", "b"), FAMILY: ids("c")}


async def test_diversity_compares_hits_of_all_tenants() -> None:
    profile = replace(ONE_LEG, limit=2, diversity=Diversity(trade_off=0.5, pool=10))
    same = {"a": "The key is under the mat.", "b": "Dinner is at eight."}

    plain = await ask(LegOfTenants(mine="a b", family="a b"), to(MINE, FAMILY), texts=same)
    diverse = await ask(LegOfTenants(mine="a b", family="a b"), to(MINE, FAMILY), profile, same)

    assert [hit.item.id for hit in plain.hits[:2]] == ["a", "a"]
    assert [hit.item.id for hit in diverse.hits] == ["a", "b"]


async def test_hits_not_reranked_follow_those_reranked() -> None:
    profile = replace(ONE_LEG, rerank=Rerank(head=1, weight=1.0))
    logits = FixedReranker({"mine": -5.0, "family": 5.0})

    answer = await ask(
        LegOfTenants(mine="a b", family="c d"),
        to(MINE, FAMILY, mine=100.0),
        profile,
        reranker=logits,
    )

    assert whose(answer) == ["family c", "mine a", "mine b", "family d"]
    assert answer.rerank is not None
    assert answer.rerank.hits == 2


async def test_reserved_places_tell_equal_ids_apart() -> None:
    profile = replace(ONE_LEG, limit=2, legs=(LegSpec(name="dense", reserved=2),))

    answer = await ask(LegOfTenants(mine="a b", family="a"), to(MINE, FAMILY, mine=5.0), profile)

    assert whose(answer) == ["mine a", "family a"]
    assert answer.hits[1].ledger.reserved_by == "dense"
