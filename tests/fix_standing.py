"""One service over real stores for many tests, each with a memory of its own.

Ranks by meaning are forced by `PlacedEmbedder`, a fake of the port `Embedder`, and logits by
`FixedReranker`, a fake of `Reranker`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import pytest

from tests.fake_placed import PlacedEmbedder
from tests.fakes import FixedReranker
from tests.fix_local_service import local_service
from tests.fix_postgres import fresh_database
from trivium import AsyncClient, Item, LegState

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def ago(days: float) -> datetime:
    """A time before `NOW`."""
    return NOW - timedelta(days=days)


@dataclass(frozen=True)
class Standing:
    """A service, where its embedder places texts, and what its reranker gives them."""

    client: AsyncClient
    cosines: dict[str, float]
    logits: dict[str, float]

    async def remember(
        self,
        tenant: str,
        items: Sequence[Item],
        cosines: Mapping[str, float],
        logits: Mapping[str, float],
    ) -> AsyncClient:
        """Stores the items, and returns a client of them when every leg has seen them."""
        self.cosines.update(cosines)
        self.logits.update(logits)
        memory = self.client.for_tenant(tenant)
        await remember(memory, items)
        return memory


class Remember(Protocol):
    """Makes a memory; both mappings are by how a text ends."""

    async def __call__(
        self,
        items: Sequence[Item],
        cosines: Mapping[str, float],
        logits: Mapping[str, float] | None = None,
    ) -> AsyncClient: ...


@pytest.fixture(scope="module")
async def standing(postgres_server: str, neo4j_uri: str) -> AsyncIterator[Standing]:
    """One service for the tests that take nothing away from it."""
    cosines: dict[str, float] = {}
    logits: dict[str, float] = {}
    with fresh_database(postgres_server) as dsn:
        async with local_service(
            dsn, neo4j_uri, embedder=PlacedEmbedder(cosines), reranker=FixedReranker(logits)
        ) as client:
            yield Standing(client, cosines, logits)


@pytest.fixture
def remembering(standing: Standing, request: pytest.FixtureRequest) -> Remember:
    """`await remembering(items, cosines)` is a client of a memory of the test's own."""

    async def remember_here(
        items: Sequence[Item],
        cosines: Mapping[str, float],
        logits: Mapping[str, float] | None = None,
    ) -> AsyncClient:
        return await standing.remember(str(request.node.name), items, cosines, logits or {})

    return remember_here


async def remember(memory: AsyncClient, items: Sequence[Item], patience_s: float = 30) -> None:
    """Stores the items, and returns when every leg that is up has seen them.

    Args:
        memory: Where to.
        items: What.
        patience_s: How long a leg is waited for at a time, those that are down among them. By
            default enough for a Neo4j that is still planning its first searches, twice.
    """
    token = (await memory.ingest(items)).token
    while await _is_catching_up(memory, items[0].id, token, patience_s):
        pass


async def _is_catching_up(memory: AsyncClient, id_: str, token: str, patience_s: float) -> bool:
    """Whether a leg has not seen the write yet; asked in a way that counts as no access."""
    seen = await memory.explain_absence(
        "anything at all", segment_id=id_, token=token, as_of=NOW, timeout=patience_s
    )
    return any(leg.state in (LegState.STALE, LegState.TIMED_OUT) for leg in seen.legs)
