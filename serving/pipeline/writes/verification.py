"""Compares the projections with PostgreSQL, and repairs them.

The service may be running, so what differs at first may only not be projected yet. It is compared
again once the projections have followed the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from serving.domain.items.records import ItemId, TenantName
from serving.ports.verification import Difference, Finding, GraphContents, Truth

BATCH = 1000
"""Items of one query, and of one transaction of a repair: a projection reads whole transactions."""
FOLLOW_WITHIN_S = 60.0
REPAIR_ROUNDS = 3
"""A repair can show another difference: an entity that is removed is missing from its items."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Verification:
    """The compared items, and the differences.

    `followed` is False if the projections had not followed the log: then what differs may follow.
    """

    items: Mapping[TenantName, int]
    findings: Sequence[Finding]
    followed: bool = True


class Verifier:
    """Compares the stores, tenant by tenant."""

    def __init__(self, truth: Truth, graph: GraphContents) -> None:
        self._truth = truth
        self._graph = graph

    async def verify(self) -> Verification:
        """Compares all items of all tenants; raises `UnavailableError` if a store is away."""
        items, suspects = await self._suspects()
        if not await self._compared(suspects):
            return Verification(items, [])
        followed = await self._truth.projected(FOLLOW_WITHIN_S)
        return Verification(items, await self._compared(suspects), followed)

    async def repair(self, found: Verification) -> Verification:
        """Repairs what differs, and compares again when the projections have followed."""
        for _ in range(REPAIR_ROUNDS):
            for finding in found.findings:
                if finding.store == "graph" and isinstance(finding.subject, str):
                    await self._graph.remove_entities(finding.tenant, [finding.subject])
            for batch in _batches(found.findings):
                await self._truth.repair(batch)
            if not await self._truth.projected(FOLLOW_WITHIN_S):
                return Verification(found.items, found.findings, followed=False)
            found = await self.verify()
            if not found.findings:
                break
        return found

    async def rebuild_graph(self) -> Verification:
        """Makes the projector write all items again, and removes what is left over."""
        await self._truth.log_everything()
        found = await self.verify()
        return await self.repair(found) if found.findings and found.followed else found

    async def _suspects(self) -> tuple[dict[TenantName, int], dict[TenantName, list[ItemId]]]:
        """The number of items of each tenant, and those that seem to differ in the graph."""
        counts: dict[TenantName, int] = {}
        suspects: dict[TenantName, list[ItemId]] = {}
        stored = await self._truth.tenants()
        for tenant in dict.fromkeys([*stored, *await self._graph.tenants()]):
            counts[tenant], suspects[tenant] = 0, []
            async for batch in self._truth.items(tenant):
                counts[tenant] += len(batch)
                suspects[tenant] += await self._differing(tenant, batch)
            async for batch in self._graph.items(tenant):
                rows = await self._truth.rows(tenant, batch)
                suspects[tenant] += [item for _, item in rows.removed]
        return counts, suspects

    async def _compared(self, suspects: Mapping[TenantName, Sequence[ItemId]]) -> list[Finding]:
        """The differences now, among the suspects, the entities and the embeddings."""
        findings = await self._truth.embedding_findings()
        for tenant, items in suspects.items():
            for batch in _batches(list(dict.fromkeys(items))):
                differing = await self._differing(tenant, batch)
                findings += [
                    Finding("graph", each, tenant, item) for item, each in differing.items()
                ]
            findings += [
                Finding("graph", Difference.LEFT_OVER, tenant, key)
                for key in await self._graph.unsound_entities(tenant)
            ]
        return findings

    async def _differing(
        self, tenant: TenantName, items: Sequence[ItemId]
    ) -> Mapping[ItemId, Difference]:
        return await self._graph.differing(tenant, await self._truth.rows(tenant, items))


def _batches(all_: Sequence[Value]) -> Iterator[Sequence[Value]]:
    for start in range(0, len(all_), BATCH):
        yield all_[start : start + BATCH]
