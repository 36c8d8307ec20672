"""A newer transcript ends the search for the older one in every store, while both are held up."""

from __future__ import annotations

import pytest

from bench.harness.sample import multiplied_sample
from bench.speed.cancellation.measure import EMBEDDER, NEO4J, POSTGRES, measure

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]

REPLACED = 5


@pytest.mark.usefixtures("sockets_collected", "neo4j_graph")
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)
async def test_the_search_for_a_replaced_transcript_ends_in_every_store(
    postgres_dsn: str, neo4j_uri: str
) -> None:
    gone = await measure(postgres_dsn, neo4j_uri, multiplied_sample(1), REPLACED)

    assert {where: len(seconds) for where, seconds in gone.items()} == {
        POSTGRES: REPLACED,
        NEO4J: REPLACED,
        EMBEDDER: REPLACED,
    }
