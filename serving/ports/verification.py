"""The contents of PostgreSQL and of the graph, for their comparison."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from serving.domain.items.records import ItemId, TenantName
from serving.ports.graph import GraphChanges


class Difference(StrEnum):
    """A difference between a projection and PostgreSQL."""

    MISSING = "missing"
    STALE = "stale"
    """It is there with another content."""
    LEFT_OVER = "left over"
    """It is there and should not be."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference.

    `subject` is the item, or the key of what is no item: an entity, or a vector without an item,
    which has no tenant.
    """

    store: Literal["embeddings", "graph"]
    difference: Difference
    tenant: TenantName
    subject: ItemId | str


class Truth(Protocol):
    """PostgreSQL, with the embeddings, which it stores too."""

    async def tenants(self) -> list[TenantName]:
        """Returns all tenants."""

    def items(self, tenant: TenantName) -> AsyncIterator[list[ItemId]]:
        """Iterates over all items of a tenant, in batches."""

    async def rows(self, tenant: TenantName, items: Sequence[ItemId]) -> GraphChanges:
        """Returns the items as the graph should hold them; hidden and absent ones as removed."""

    async def embedding_findings(self) -> list[Finding]:
        """Returns where the embeddings differ from the items, for the model in use.

        A vector is stale if it is of another text or not of the model's length. Dead letters are
        not missing.
        """

    async def projected(self, timeout_s: float) -> bool:
        """Waits until the projections have followed the log; False if they have not in time."""

    async def repair(self, findings: Sequence[Finding]) -> None:
        """Logs the items of the findings, so that all projections read them again.

        Vectors that are stale or left over are deleted.
        """

    async def log_everything(self) -> None:
        """Logs all items, so that the projections read them again."""


class GraphContents(Protocol):
    """The graph, as it is compared."""

    async def tenants(self) -> list[TenantName]:
        """Returns all tenants that have a node."""

    def items(self, tenant: TenantName) -> AsyncIterator[list[ItemId]]:
        """Iterates over all items of a tenant, in batches; without segments that are only cited."""

    async def differing(
        self, tenant: TenantName, rows: GraphChanges
    ) -> Mapping[ItemId, Difference]:
        """Compares the content of rows of the tenant with what the graph holds.

        Content is all that was written: properties, names, and the nodes that it is related to.
        """

    async def unsound_entities(self, tenant: TenantName) -> list[str]:
        """Returns the keys of entities that nothing uses, or whose properties are not theirs."""

    async def remove_entities(self, tenant: TenantName, keys: Sequence[str]) -> None:
        """Removes entities with their relations."""
