"""Peers find what they should."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from bench.peers.bm25_numpy import Bm25Numpy
from bench.peers.peer import Passage, Peer, StatedFact
from serving.config.settings import load_settings
from serving.ports.embedding import Vector

PEERS = {"bm25_numpy": "", "qdrant": "qdrant_edge", "lance": "lancedb"}
"""The modules, and the library that each needs beyond those of the tools."""

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


@pytest.fixture(params=sorted(PEERS))
async def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Peer:
    library = PEERS[request.param]
    if library and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is installed by make bench-peers")
    module = importlib.import_module(f"bench.peers.{request.param}")
    made: Peer = (
        Bm25Numpy()
        if request.param == "bm25_numpy"
        else getattr(module, {"qdrant": "QdrantEdge", "lance": "Lance"}[request.param])(tmp_path)
    )
    passages = [
        Passage(id_, text, direction(place)) for place, (id_, text) in enumerate(TEXTS.items())
    ]
    await made.fill({OHARA: passages, OTHER: [Passage("theirs", TEXTS["boat"], direction(0))]})
    return made


async def test_words_and_meaning_find_only_in_the_tenant(peer: Peer) -> None:
    found = await peer.search(OHARA, "Who sailed to Goa?", direction(2), 2)

    assert sorted(found) == ["boat", "moon"]


async def test_a_question_of_stop_words_is_answered_by_meaning(peer: Peer) -> None:
    found = await peer.search(OHARA, "what was it", direction(1), 1)

    assert found == ["dog"]


async def test_graphiti_finds_what_the_facts_of_the_tenant_rest_on(tmp_path: Path) -> None:
    pytest.importorskip("graphiti_core", reason="graphiti_core is installed by make bench-peers")
    graph_memory = importlib.import_module("bench.peers.graph_memory").graph_memory

    def fact(id_: str, place: int) -> StatedFact:
        return StatedFact(
            subject="Mel",
            relation="told",
            object=id_,
            sentence=TEXTS[id_],
            vector=direction(place),
            evidence=[id_],
        )

    facts = {OHARA: [fact("boat", 0), fact("moon", 2)], OTHER: [fact("dog", 1)]}
    async with graph_memory(tmp_path / "neo4j", load_settings().cache_dir, facts) as peer:
        await peer.fill({})

        assert await peer.search(OHARA, "Who sailed to Goa?", direction(0), 1) == ["boat"]
        assert sorted(await peer.search(OHARA, "sailed", direction(2), 9)) == ["boat", "moon"]
        assert await peer.search("nobody", "sailed", direction(0), 9) == []
