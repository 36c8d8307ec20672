"""Peers find what they should, and all systems are measured alike."""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.harness.collection import Query
from bench.harness.results import Record
from bench.peers.bm25_numpy import Bm25Numpy
from bench.peers.peer import Passage, Peer, StatedFact
from bench.peers.tables import save_picture, summary
from bench.peers.turns import CALLERS, System, recall, take_turns
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


class Answering:
    """Answers every question alike, and counts how often it was asked."""

    def __init__(self, name: str, found: Sequence[str], asked: Counter[str]) -> None:
        self.name = name
        self.questions: list[str] = []
        self._found = found
        self._asked = asked

    async def ask(self, query: Query) -> Sequence[str]:
        self._asked[self.name] += 1
        self.questions.append(query.id)
        return self._found

    def system(self) -> System:
        return System(name=self.name, lacks="all", ask=self.ask, cpu_s=lambda: 0.0)


QUERIES = [
    Query(id=f"q{number}", tenant="t", text="?", relevant=frozenset({"a"})) for number in range(8)
]


async def test_systems_answer_the_same_queries(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()
    one = Answering("one", ["a"], asked).system()
    other = Answering("other", ["b"], asked).system()
    records: list[Record] = []
    for system in (one, other):
        records.append((await recall(system, QUERIES)).as_record({}))
    order = []
    async for result in take_turns([one, other], QUERIES, turns=2, calls=5):
        records.append(result.as_record({}))
        order.append(result.parameters["system"])

    rows = [line.split(" | ") for line in summary(records).splitlines()[2:]]
    save_picture(records, tmp_path / "overview.png")

    assert asked["one"] == asked["other"]
    assert order == ["one", "other", "other", "one"] * len(CALLERS)
    assert [(row[0], row[-2][:5]) for row in rows] == [("| one", "1.000"), ("| other", "0.000")]
    assert (tmp_path / "overview.png").stat().st_size > 0


async def test_a_run_that_ends_early_has_no_row(tmp_path: Path) -> None:
    system = Answering("one", ["a"], Counter()).system()
    records = [(await recall(system, QUERIES)).as_record({})]
    async for result in take_turns([system], QUERIES, turns=1, calls=5):
        records.append(result.as_record({}))
        break

    save_picture(records, tmp_path / "overview.png")

    assert len(summary(records).splitlines()) == 2
    assert (tmp_path / "overview.png").stat().st_size > 0


async def test_loads_repeat_no_query() -> None:
    answering = Answering("one", ["a"], Counter())

    loads = take_turns([answering.system()], QUERIES, turns=1, calls=5)
    async for _ in loads:
        pass

    numbers = [int(question.removeprefix("q")) for question in answering.questions]
    assert Counter(numbers) == Counter(place % len(QUERIES) for place in range(len(numbers)))
