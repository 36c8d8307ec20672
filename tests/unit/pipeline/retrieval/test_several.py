"""Answers from several tenants, which are asked together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from serving.domain.errors import AllLegsFailedError, DependencyError
from serving.domain.items.records import Item, ItemId, TenantName
from serving.domain.questions.query import Query, TenantWeight
from serving.domain.ranking.profile import Diversity, LegSpec, Profile, Rerank
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.pipeline.retrieval.steps import Retrieval
from serving.ports.memory_store import Batch
from tests.fakes.pipeline import FixedLeg, FixedReranker, RecordingAccess
from tests.fakes.store import InMemoryStore
from tests.support.builders import query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import retriever, soon

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


class AccessByTenant(RecordingAccess):
    """Records whose items were shown."""

    def __init__(self) -> None:
        super().__init__()
        self.of_tenants: dict[TenantName, list[str]] = {}

    def record(self, tenant: TenantName, items: Iterable[ItemId]) -> None:
        self.of_tenants[tenant] = [item.id for item in items]


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
    assert {hit.item.text.split()[-1] for hit in answer.hits if hasattr(hit.item, "text")} == {
        "mine",
        "family",
    }


async def test_limit_is_that_of_the_whole_answer() -> None:
    answer = await ask(LegOfTenants(mine="a b c d e", family="a b c d e"), to(MINE, FAMILY))

    assert len(answer.hits) == ONE_LEG.limit
    assert answer.candidates == 10


async def test_failed_tenant_is_labelled_and_others_answer() -> None:
    answer = await ask(LegOfTenants(family="a"), to(MINE, FAMILY, HOUSE))

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


async def test_tenant_without_a_required_leg_is_labelled() -> None:
    asked = replace(to(MINE, FAMILY), required=frozenset({"dense"}))

    answer = await ask(LegOfTenants(family="a"), asked)

    assert whose(answer) == ["family a"]
    assert answer.reports[0].state is LegState.FAILED


async def test_tenants_are_asked_within_their_own_scopes() -> None:
    leg = LegOfTenants(mine="a", family="b")

    await ask(leg, to(MINE, FAMILY))

    assert [each.scope.tenant for each in leg.asked] == [MINE, FAMILY]
    assert [each.shared_with for each in leg.asked] == [MINE, MINE]
    assert not any(each.tenants for each in leg.asked)


async def test_shown_hits_are_recorded_with_their_tenants() -> None:
    access = AccessByTenant()

    await ask(LegOfTenants(mine="a b", family="c"), to(MINE, FAMILY), access=access)

    assert access.of_tenants == {MINE: ["a", "b"], FAMILY: ["c"]}


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
