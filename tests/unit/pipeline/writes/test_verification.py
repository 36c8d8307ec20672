"""The comparison of the projections with PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from serving.domain.items.records import ItemId, Segment, TenantName, segment_id
from serving.pipeline.writes.verification import Verifier
from serving.ports.graph import GraphChanges
from serving.ports.verification import Difference, Finding
from tests.support.builders import TENANT, segment

OTHER = TenantName("other")


@dataclass
class FakeTruth:
    """Segments in memory; the graph follows when it is waited for, if `follows`."""

    graph: FakeContents
    stored: dict[ItemId, Segment] = field(default_factory=dict)
    vectors: list[Finding] = field(default_factory=list)
    follows: bool = True
    repaired: list[Finding] = field(default_factory=list)

    async def tenants(self) -> list[TenantName]:
        return [TENANT]

    async def items(self, tenant: TenantName) -> AsyncIterator[list[ItemId]]:
        if tenant == TENANT:
            yield list(self.stored)

    async def rows(self, tenant: TenantName, items: Sequence[ItemId]) -> GraphChanges:
        stored = self.stored if tenant == TENANT else {}
        return GraphChanges(
            segments=[(tenant, stored[item]) for item in items if item in stored],
            removed=[(tenant, item) for item in items if item not in stored],
        )

    async def embedding_findings(self) -> list[Finding]:
        return list(self.vectors)

    async def projected(self, timeout_s: float) -> bool:
        if self.follows:
            self.graph.nodes = {(TENANT, item): row for item, row in self.stored.items()}
        return self.follows

    async def repair(self, findings: Sequence[Finding]) -> None:
        self.repaired += findings
        self.vectors.clear()
        self.follows = True

    async def log_everything(self) -> None:
        self.follows = True


@dataclass
class FakeContents:
    """Segments in memory."""

    nodes: dict[tuple[TenantName, ItemId], Segment] = field(default_factory=dict)
    entities: list[str] = field(default_factory=list)

    async def tenants(self) -> list[TenantName]:
        return list(dict.fromkeys(tenant for tenant, _ in self.nodes))

    async def items(self, tenant: TenantName) -> AsyncIterator[list[ItemId]]:
        yield [item for of, item in self.nodes if of == tenant]

    async def differing(
        self, tenant: TenantName, rows: GraphChanges
    ) -> Mapping[ItemId, Difference]:
        found = {}
        for _, each in rows.segments:
            node = self.nodes.get((tenant, each.item))
            if node != each:
                found[each.item] = Difference.STALE if node else Difference.MISSING
        left = [item for _, item in rows.removed if (tenant, item) in self.nodes]
        return found | dict.fromkeys(left, Difference.LEFT_OVER)

    async def unsound_entities(self, tenant: TenantName) -> list[str]:
        return self.entities if tenant == TENANT else []

    async def remove_entities(self, tenant: TenantName, keys: Sequence[str]) -> None:
        self.entities = [key for key in self.entities if key not in keys]


A, B = segment_id("a"), segment_id("b")


def differing() -> FakeTruth:
    """`a` is missing, `b` stale, and another tenant's `b` left over; nothing follows."""
    graph = FakeContents({(TENANT, B): segment("b", "old"), (OTHER, B): segment("b")})
    return FakeTruth(graph, {A: segment("a"), B: segment("b", "new")}, follows=False)


async def test_missing_stale_and_surplus_items_are_found() -> None:
    truth = differing()

    found = await Verifier(truth, truth.graph).verify()

    assert found.items == {TENANT: 2, OTHER: 0}
    assert set(found.findings) == {
        Finding("graph", Difference.MISSING, TENANT, A),
        Finding("graph", Difference.STALE, TENANT, B),
        Finding("graph", Difference.LEFT_OVER, OTHER, B),
    }
    assert not found.followed


async def test_unprojected_item_is_no_difference() -> None:
    truth = FakeTruth(FakeContents(), {A: segment("a")})

    found = await Verifier(truth, truth.graph).verify()

    assert (found.findings, found.followed) == ([], True)


async def test_a_repair_leaves_no_difference() -> None:
    truth = differing()
    truth.vectors.append(Finding("embeddings", Difference.MISSING, TENANT, A))
    truth.graph.entities.append("unused")
    verifier = Verifier(truth, truth.graph)
    found = await verifier.verify()

    left = await verifier.repair(found)

    assert (left.findings, left.followed) == ([], True)
    assert set(truth.repaired) == set(found.findings)
    assert len(found.findings) == 5


async def test_a_rebuilt_graph_has_all_items_and_no_other() -> None:
    truth = differing()

    left = await Verifier(truth, truth.graph).rebuild_graph()

    assert left.findings == []
    assert truth.graph.nodes.keys() == {(TENANT, A), (TENANT, B)}
