from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import (
    AllLegsFailedError,
    BudgetExhaustedError,
    DependencyError,
    NotReadyError,
    RequiredLegsError,
    StoreUnavailableError,
)
from serving.domain.items.records import Item, ItemId, TenantName, fact_id, segment_id
from serving.domain.questions.period import Period
from serving.domain.questions.query import Filter, Query
from serving.domain.ranking.priors import Decay, Importance, ImportanceStyle
from serving.domain.ranking.profile import LegSpec, Profile, SignalSpec
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs import DenseLeg
from serving.pipeline.retrieval.legs.leg import (
    NOTHING_TO_LOOK_UP,
    Leg,
    LegAnswer,
    LegRequest,
    LegSkippedError,
)
from serving.ports.embedding import Vector
from serving.ports.memory_store import Batch
from tests.fakes.meaning import FakeEmbedder
from tests.fakes.pipeline import (
    BrokenLeg,
    FixedConsistency,
    FixedDates,
    FixedIndex,
    FixedLeg,
    HangingLeg,
    RecordingAccess,
)
from tests.fakes.store import InMemoryStore
from tests.support.builders import NOON, TENANT, batch_of, days, fact, ids, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import hit_ids, retriever, soon, states, store_of

TWO_LEGS = Profile(name="two", legs=(LegSpec(name="lexical"), LegSpec(name="dense")))
TOKEN = ConsistencyToken.of("in-memory", [7])


async def test_fused_hits_name_their_legs() -> None:
    store = await store_of(segment("a", "one"), segment("b", "two"), segment("c", "three"))
    legs = {"lexical": FixedLeg("a b"), "dense": FixedLeg("c b")}

    answer = await retriever(store, legs).retrieve(query("?"), TWO_LEGS, soon())

    assert hit_ids(answer) == ["b", "a", "c"]
    assert [term.leg for term in answer.hits[0].ledger.leg_terms] == ["lexical", "dense"]


@pytest.mark.parametrize(
    ("leg", "state", "reason"),
    [
        (BrokenLeg(DependencyError("graph", "refused")), LegState.FAILED, "graph: refused"),
        (BrokenLeg(RuntimeError("secret")), LegState.FAILED, "internal error"),
        (BrokenLeg(TimeoutError()), LegState.TIMED_OUT, "the budget ran out"),
        (BrokenLeg(LegSkippedError("nothing to ask")), LegState.SKIPPED, "nothing to ask"),
        (
            BrokenLeg(NotReadyError("index", "re-embedding 3 %")),
            LegState.SKIPPED,
            "re-embedding 3 %",
        ),
    ],
)
async def test_failed_leg_is_reported_and_others_are_used(
    leg: Leg, state: LegState, reason: str
) -> None:
    store = await store_of(segment("a"))
    legs = {"lexical": FixedLeg("a"), "dense": leg}

    answer = await retriever(store, legs).retrieve(query("?"), TWO_LEGS, soon())

    assert hit_ids(answer) == ["a"]
    assert (answer.reports[1].state, answer.reports[1].reason) == (state, reason)


async def test_hung_leg_is_cancelled_at_the_deadline() -> None:
    store = await store_of(segment("a"))
    hanging = HangingLeg()
    legs: dict[str, Leg] = {"lexical": FixedLeg("a"), "dense": hanging}

    answer = await retriever(store, legs).retrieve(query("?"), TWO_LEGS, Deadline.after(0.05))

    assert hanging.cancelled
    assert states(answer)["dense"] is LegState.TIMED_OUT


async def test_all_legs_failing_is_an_error_with_each_reason() -> None:
    broken = BrokenLeg(DependencyError("x", "gone"))
    legs = {"lexical": broken, "dense": broken}

    with pytest.raises(AllLegsFailedError) as failed:
        await retriever(await store_of(), legs).retrieve(query("?"), TWO_LEGS, soon())

    assert failed.value.reasons == {"lexical": "x: gone", "dense": "x: gone"}


async def test_timeout_of_all_legs_is_an_empty_answer() -> None:
    hanging = HangingLeg()
    legs = {"lexical": hanging, "dense": hanging}

    answer = await retriever(await store_of(), legs).retrieve(
        query("?"), TWO_LEGS, Deadline.after(0.05)
    )

    assert not answer.hits
    assert set(states(answer).values()) == {LegState.TIMED_OUT}


async def test_unreachable_postgres_fails_the_request() -> None:
    store = await store_of(segment("a"))
    store.available = False

    with pytest.raises(StoreUnavailableError):
        await retriever(store, {"lexical": FixedLeg("a")}).retrieve(query("?"), TWO_LEGS, soon())


async def test_leg_failing_for_postgres_fails_the_request() -> None:
    legs: dict[str, Leg] = {
        "lexical": BrokenLeg(StoreUnavailableError("gone")),
        "dense": FixedLeg(),
    }

    with pytest.raises(StoreUnavailableError):
        await retriever(await store_of(), legs).retrieve(query("?"), TWO_LEGS, soon())


class HangingStore(InMemoryStore):
    async def load(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> dict[ItemId, Item]:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets this event")


async def test_late_rows_exhaust_the_budget() -> None:
    with pytest.raises(BudgetExhaustedError):
        await retriever(HangingStore(), {"lexical": FixedLeg("a")}).retrieve(
            query("?"), TWO_LEGS, Deadline.after(0.05)
        )


async def test_a_stale_leg_is_used_and_reported() -> None:
    store = await store_of(segment("a"))
    legs = {"dense": FixedLeg("a", stale=True)}

    answer = await retriever(store, legs).retrieve(query("?", token=TOKEN), TWO_LEGS, soon())

    assert hit_ids(answer) == ["a"]
    assert states(answer)["dense"] is LegState.STALE


async def test_rows_dead_lettered_are_counted_per_leg() -> None:
    consistency = FixedConsistency(dead_letters={"embedding": 2})
    legs = {"lexical": FixedLeg(), "dense": FixedLeg()}

    answer = await retriever(await store_of(), legs, consistency=consistency).retrieve(
        query("?", token=TOKEN), TWO_LEGS, soon()
    )

    assert [report.dead_letter_count for report in answer.reports] == [0, 2]


async def test_a_leg_of_weight_zero_is_not_asked() -> None:
    dense = FixedLeg("a")
    profile = replace(TWO_LEGS, legs=(LegSpec(name="lexical"), LegSpec(name="dense", weight=0)))

    answer = await retriever(await store_of(), {"lexical": FixedLeg(), "dense": dense}).retrieve(
        query("?"), profile, soon()
    )

    assert not dense.requests
    assert states(answer)["dense"] is LegState.SKIPPED


async def test_erased_or_hidden_rows_are_not_shown() -> None:
    store = await store_of(
        segment("fits", "one", speaker="Mel"),
        segment("later", "two", speaker="Mel", event_time=NOON + days(5)),
        segment("other", "three", speaker="Tom"),
    )
    legs = {"dense": FixedLeg("later gone other fits")}
    narrow = scope(filter_=Filter(speakers=("mel",)))

    answer = await retriever(store, legs).retrieve(query("?", scope=narrow), TWO_LEGS, soon())

    assert hit_ids(answer) == ["fits"]
    assert answer.vanished == 3


async def test_only_what_had_been_recorded_is_shown() -> None:
    long_ago = {"valid_from": NOON - days(9), "recorded_at": NOON - days(9)}
    store = await store_of(
        segment("said"),
        fact("old", "Mel", "lives in", "Rome", **long_ago),
        fact("new", "Mel", "lives in", "Oslo", valid_from=NOON - days(5), closes=("old",)),
    )
    legs = {"facts": FixedLeg([segment_id("said"), fact_id("new"), fact_id("old")])}
    profile = Profile(name="f", legs=(LegSpec(name="facts"),))

    async def shown(known_at: datetime | None) -> list[str]:
        asked = query("?", scope=scope(known_at=known_at))
        return hit_ids(await retriever(store, legs).retrieve(asked, profile, soon()))

    assert await shown(None) == ["said", "new"]
    assert await shown(NOON - days(1)) == ["old"]
    assert await shown(NOON) == ["new"]


async def test_a_fact_is_shown_only_while_it_holds() -> None:
    store = await store_of(
        fact("now", "Mel", "lives in", "Rome", valid_from=NOON - days(1)),
        fact("over", "Mel", "lives in", "Oslo", valid_to=NOON),
        fact("wrong", "Mel", "lives in", "Bern", retracted_at=NOON),
    )
    legs = {"facts": FixedLeg([fact_id("over"), fact_id("now"), fact_id("wrong")])}

    answer = await retriever(store, legs).retrieve(
        query("?"), Profile(name="f", legs=(LegSpec(name="facts"),)), soon()
    )

    assert hit_ids(answer) == ["now"]


async def test_segments_near_a_named_time_come_first() -> None:
    store = await store_of(
        segment("march", "We sailed", event_time=NOON - days(90)),
        segment("june", "We sailed again", event_time=NOON),
        segment("july", "We sailed once more", event_time=NOON + days(30)),
    )
    dates = FixedDates(Period(NOON - days(3), NOON - days(1)))
    timed = replace(TWO_LEGS, signals=(SignalSpec(name="time", weight=1.0),))
    service = retriever(store, {"dense": FixedLeg("march july june")}, dates=dates)
    asked = query("Who sailed in June?", scope=scope(as_of=NOON + days(60)))

    plain = await service.retrieve(asked, TWO_LEGS, soon())
    before = list(dates.asked)
    answer = await service.retrieve(asked, timed, soon())

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
    dates = FixedDates(Period(NOON - days(3), NOON - days(1)))
    timed = replace(TWO_LEGS, signals=(SignalSpec(name="time", weight=1.0),))
    service = retriever(store, {"dense": FixedLeg("a")}, dates=dates)

    answer = await service.retrieve(query("Who sailed?", time_zone=asked), timed, soon())

    assert [str(at.tzinfo) for _, at in dates.asked] == [zone]
    assert str(answer.time_zone) == zone


async def _with_repeats() -> InMemoryStore:
    return await store_of(
        *(
            segment(f"w{n}", "The wifi password is sunflower-22.", event_time=NOON + days(n / 24))
            for n in range(5)
        ),
        segment("other", "The guest wifi is open."),
        segment("bo", "The wifi password is sunflower-22.", speaker="Bo"),
    )


async def test_repeats_are_folded_into_the_newest() -> None:
    found = {"dense": FixedLeg("w1 w4 bo w0 other")}

    answer = await retriever(await _with_repeats(), found).retrieve(query("?"), TWO_LEGS, soon())

    assert hit_ids(answer) == ["w4", "bo", "other"]
    assert [each.id for each in answer.hits[0].folded] == ["w1", "w0"]
    assert answer.folded == 2


class ReadStore(InMemoryStore):
    """Notes which rows each call reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[Sequence[ItemId]] = []

    async def load(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> dict[ItemId, Item]:
        self.reads.append(items)
        return await super().load(tenant, items, deadline)


@pytest.mark.parametrize(
    ("second", "folded"), [("two", 0), ("one", 1)], ids=["other texts", "a repeat"]
)
async def test_tied_and_shown_rows_are_read_once(second: str, folded: int) -> None:
    store = ReadStore()
    said = {"a": "one", "b": second, "c": "three", "d": "four"}
    await store.write(batch_of(*(segment(id_, text) for id_, text in said.items())))
    legs = {"lexical": FixedLeg("a=b c"), "dense": FixedLeg("c d")}

    answer = await retriever(store, legs).retrieve(query("?"), TWO_LEGS, soon())

    assert answer.folded == folded
    assert [sorted(each.id for each in read) for read in store.reads] == [["a", "b", "c", "d"]]


async def test_the_limit_is_filled_although_the_first_rows_are_gone() -> None:
    names = [f"s{place:02}" for place in range(20)]
    store = await store_of(*(segment(name, f"words {name}") for name in names[15:]))
    profile = replace(TWO_LEGS, limit=3)

    answer = await retriever(store, {"dense": FixedLeg(" ".join(names))}).retrieve(
        query("?"), profile, soon()
    )

    assert hit_ids(answer) == ["s15", "s16", "s17"]


async def test_decay_and_importance_enter_score_and_ledger() -> None:
    store = await store_of(
        segment("old", "one", event_time=NOON - days(59), importance=1.0),
        segment("new", "two", event_time=NOON + days(1), importance=0.0),
    )
    profile = replace(
        TWO_LEGS, decay=Decay(), importance=Importance(style=ImportanceStyle.MULTIPLY)
    )

    answer = await retriever(store, {"dense": FixedLeg("old new")}).retrieve(
        query("?"), profile, soon()
    )

    scores = {hit.item.id: hit.score for hit in answer.hits}
    assert hit_ids(answer) == ["new", "old"]
    assert math.isclose(scores["old"], 1 / 61 * 1.0 * 0.25, abs_tol=1e-9)
    assert math.isclose(scores["new"], 1 / 62 * 0.7, abs_tol=1e-9)


async def test_a_leg_says_how_many_rows_its_projection_lacks() -> None:
    store = await store_of(segment("a"))
    behind = FixedConsistency(pending={"embedding": 7})

    answer = await retriever(
        store, {"lexical": FixedLeg("a"), "dense": FixedLeg("a")}, consistency=behind
    ).retrieve(query("?"), TWO_LEGS, soon())

    assert {report.leg: report.pending for report in answer.reports} == {"lexical": 0, "dense": 7}


async def test_a_preview_is_not_counted_as_an_access() -> None:
    access = RecordingAccess()
    store = await store_of(segment("a"))

    answer = await retriever(store, {"dense": FixedLeg("a")}, access=access).preview(
        query("?"), TWO_LEGS, soon()
    )

    assert hit_ids(answer) == ["a"]
    assert access.recorded == []


async def test_seeds_that_represent_no_entity_are_reported() -> None:
    store = await store_of(segment("fuse", entity="fuse"), segment("turn"))
    asked = replace(query("?"), seeds=("fuse", "turn", "nobody"))

    answer = await retriever(store, {"dense": FixedLeg("turn")}).retrieve(asked, TWO_LEGS, soon())

    assert answer.unknown_seeds == ("turn", "nobody")


async def test_shown_hits_are_counted_as_accessed() -> None:
    access = RecordingAccess()
    store = await store_of(segment("a"))

    await retriever(store, {"dense": FixedLeg("a gone")}, access=access).retrieve(
        query("?"), TWO_LEGS, soon()
    )

    assert access.recorded == ids("a")


async def test_question_is_embedded_once_if_needed() -> None:
    store = await store_of(segment("a"))

    answer = await retriever(store, {"lexical": FixedLeg("a")}).retrieve(
        query("?"), TWO_LEGS, soon()
    )

    assert timedelta(seconds=answer.timings.embedding_s) == timedelta(0)


class PlacedEmbedder(FakeEmbedder):
    """Notes what it embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        self.asked.append(text)
        return await super().embed_query(text, deadline)


@pytest.mark.parametrize(
    ("split", "embedded"),
    [(False, ["Who is Mel? And where?"]), (True, ["Who is Mel?", "And where?"])],
)
async def test_profile_may_embed_every_question_of_a_text(split: bool, embedded: list[str]) -> None:
    embedder = PlacedEmbedder()
    service = retriever(
        await store_of(),
        {"dense": DenseLeg(RecordingAccess())},
        space=VectorSpace.of(embedder, FixedIndex()),
    )
    profile = Profile(name="split", legs=(LegSpec(name="dense"),), split_questions=split)

    await service.retrieve(query("Who is Mel? And where?"), profile, soon())

    assert embedder.asked == embedded


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
    answering = retriever(
        await store_of(segment("a")),
        {"lexical": FixedLeg("a"), "dense": dense},
        consistency=FixedConsistency(),
    )
    required = query("?", required=frozenset({"dense"}), token=TOKEN)

    with pytest.raises(RequiredLegsError) as caught:
        await answering.retrieve(required, TWO_LEGS, Deadline.after(0.05))
    without = await answering.retrieve(
        query("?", required=frozenset({"lexical"})), TWO_LEGS, Deadline.after(0.05)
    )

    assert list(caught.value.metadata) == ["dense"]
    assert why in caught.value.metadata["dense"]
    assert hit_ids(without) == ["a"]


class LegOverFacts(FixedLeg):
    """A leg that a memory without facts need not ask."""

    needs_facts = True


WITH_GRAPH = Profile(name="two", legs=(LegSpec(name="lexical"), LegSpec(name="graph", floor=0.2)))


async def test_without_facts_legs_over_facts_are_skipped() -> None:
    leg = LegOverFacts("b")
    answering = retriever(
        await store_of(segment("a"), segment("b")), {"lexical": FixedLeg("a"), "graph": leg}
    )

    answer = await answering.retrieve(query("?"), WITH_GRAPH, soon())

    assert states(answer) == {"lexical": LegState.OK, "graph": LegState.SKIPPED}
    assert answer.reports[1].reason == NOTHING_TO_LOOK_UP
    assert hit_ids(answer) == ["a"]
    assert leg.requests == []


@pytest.mark.parametrize(
    "asked",
    [query("?", required=frozenset({"graph"})), query("?", seeds=("a",))],
    ids=["required", "seeds"],
)
async def test_required_leg_or_given_seed_is_never_skipped(asked: Query) -> None:
    leg = LegOverFacts("b")
    answering = retriever(
        await store_of(segment("a", entity="Ann"), segment("b")),
        {"lexical": FixedLeg("a"), "graph": leg},
    )

    answer = await answering.retrieve(asked, WITH_GRAPH, soon())

    assert states(answer)["graph"] is LegState.OK


async def test_the_first_fact_ends_the_skipping() -> None:
    store = await store_of(segment("a"))
    answering = retriever(store, {"lexical": FixedLeg("a"), "graph": LegOverFacts("a")})
    before = await answering.retrieve(query("?"), WITH_GRAPH, soon())

    await store.write(batch_of(fact("f", "Ann", "sails", "Goa")))
    after = await answering.retrieve(query("?"), WITH_GRAPH, soon())

    assert states(before)["graph"] is LegState.SKIPPED
    assert states(after)["graph"] is LegState.OK


class StoreThatCannotTell(InMemoryStore):
    """Fails to say whether there are facts."""

    async def has_facts(
        self, tenant: TenantName, token: ConsistencyToken | None, deadline: Deadline
    ) -> bool:
        raise TimeoutError


async def test_unknown_presence_of_facts_searches_them() -> None:
    store = StoreThatCannotTell()
    await store.write(batch_of(segment("a")))
    answering = retriever(store, {"lexical": FixedLeg("a"), "graph": LegOverFacts("a")})

    answer = await answering.retrieve(query("?"), WITH_GRAPH, soon())

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
    store = await store_of(segment("a"), fact("f", "Ann", "sails", "Goa"))
    answering = retriever(store, {"lexical": first, "graph": over_facts})

    await answering.retrieve(query("?"), WITH_GRAPH, soon())

    assert first.others_begun == 1
