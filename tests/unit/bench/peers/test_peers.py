"""Peers find what they should."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.harness.collection import Query
from bench.harness.results import table
from bench.peers.peer import RANK_CONSTANTS, Memories, Passage, Peer
from bench.peers.turns import System, in_process, judged
from serving.config.settings import load_settings
from serving.ports.embedding import Vector
from tests.fakes.meaning import FakeEmbedder

PEERS = {
    "bm25_numpy": ("Bm25Numpy", ""),
    "qdrant": ("QdrantEdge", "qdrant_edge"),
    "lance": ("Lance", "lancedb"),
    "mem0_memory": ("Mem0", "mem0"),
}
"""The class of each module, and the library that it needs beyond those of the tools."""

OHARA, OTHER = "o'hara", "other"
TEXTS = {
    "boat": "We sailed to Goa last summer.",
    "dog": "The dog sleeps under the table.",
    "moon": "A red moon rose over the hill.",
    "fence": "They painted the garden fence.",
}


def direction(place: int) -> Vector:
    vector = np.zeros(8, np.float32)
    vector[place] = 1.0
    return vector


MEMORIES = {
    OHARA: [
        Passage(id_, text, direction(place), [id_])
        for place, (id_, text) in enumerate(TEXTS.items())
    ],
    OTHER: [Passage("theirs", TEXTS["boat"], direction(0), ["theirs"])],
}


@pytest.fixture(params=sorted(PEERS))
async def peer(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Peer]:
    name, library = PEERS[request.param]
    if library and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is installed by make bench-peers")
    module = importlib.import_module(f"bench.peers.{request.param}")
    made: Peer = getattr(module, name)(*[tmp_path] if library else [])
    made.rank_constant = made.rank_constants[0]
    await made.fill(MEMORIES)
    yield made
    if (close := getattr(made, "close", None)) is not None:
        close()


async def test_words_and_meaning_find_only_in_the_tenant(peer: Peer) -> None:
    nearest_to_moon_then_dog = 0.9 * direction(2) + 0.4 * direction(1) + 0.15 * direction(0)

    found = await peer.search(OHARA, "Who sailed to Goa?", nearest_to_moon_then_dog, 2)

    assert sorted(found) == ["boat", "moon"]


async def test_a_question_of_stop_words_is_answered_by_meaning(peer: Peer) -> None:
    found = await peer.search(OHARA, "what was it", direction(1), 1)

    assert found == ["dog"]


async def test_graphiti_finds_passages_of_the_tenant(tmp_path: Path) -> None:
    pytest.importorskip("graphiti_core", reason="graphiti_core is installed by make bench-peers")
    graph_memory = importlib.import_module("bench.peers.graph_memory").graph_memory

    async with graph_memory(tmp_path / "neo4j", load_settings().cache_dir) as peer:
        await peer.fill(MEMORIES)

        assert await peer.search(OHARA, "Who sailed to Goa?", direction(0), 1) == ["boat"]
        assert await peer.search(OTHER, "sailed", direction(2), 9) == ["theirs"]


class Fixed(Peer):
    """Finds all passages of a tenant in their order, and notes with what it was asked."""

    name, lacks = "fixed", "-"

    def __init__(self) -> None:
        self.asked: list[tuple[int, int | None]] = []

    async def fill(self, memories: Memories) -> None:
        self.memories = memories

    async def search(self, tenant: str, text: str, vector: Vector, limit: int) -> list[str]:
        self.asked.append((limit, self.rank_constant))
        return [passage.id for passage in self.memories[tenant]][:limit]


async def systems_over(*passages: tuple[str, list[str]]) -> tuple[Fixed, Sequence[System]]:
    """A peer with passages of these ids and this evidence."""
    peer = Fixed()
    memories = {OHARA: [Passage(id_, "", direction(0), evidence) for id_, evidence in passages]}
    await peer.fill(memories)
    return peer, in_process(peer, FakeEmbedder(), memories)


async def test_hit_on_a_fact_counts_for_its_evidence() -> None:
    peer, (system, _) = await systems_over(("fact 1", ["b", "a"]), ("a", ["a"]), ("c", ["c"]))

    assert await system.search(Query(id="q", tenant=OHARA, text="?"), 3) == ["b", "a", "c"]
    assert peer.asked == [(6, RANK_CONSTANTS[0])]


async def test_system_is_judged_in_ten_and_twenty_segments() -> None:
    passages = [(str(place), [str(place)]) for place in range(30)]
    _, (system, _) = await systems_over(*passages)
    queries = [
        Query(id="early", tenant=OHARA, text="?", grades={"1": 1, "12": 1}),
        Query(id="late", tenant=OHARA, text="?", grades={"25": 1}),
    ]

    measured = (await judged(system, queries)).measured

    means = {name: table(measured, name)["mean"] for name in measured}
    assert means["recall@10"] == 0.25
    assert (means["recall@20"], means["hit@20"], means["mrr@20"]) == (0.5, 0.5, 0.25)
