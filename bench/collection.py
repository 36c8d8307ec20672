"""Reads what the service is measured with: segments, facts, questions and judgments by tenant."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from trivium.reading import read_items
from trivium.records import Problem, Record, read_lines, read_records
from trivium.values import Fact, Item, Segment

CORPUS = "corpus.jsonl"
QUERIES = "queries.jsonl"
JUDGMENTS = "qrels.tsv"
RELATIONS = ("facts.jsonl", "triples.jsonl")

ADVERSARIAL = "adversarial"
"""LoCoMo's category of questions that the conversation does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question of a collection; `relevant` has the ids of the segments that answer it."""

    id: str
    tenant: str
    text: str
    as_of: datetime | None = None
    category: str = ""
    relevant: frozenset[str] = frozenset()

    @property
    def judged(self) -> bool:
        """Whether it says anything about quality."""
        return bool(self.relevant) and self.category != ADVERSARIAL


@dataclass(frozen=True, slots=True)
class Memory:
    """What one tenant stores."""

    segments: list[Segment] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    def add(self, item: Item) -> None:
        """Takes over an item."""
        if isinstance(item, Segment):
            self.segments.append(item)
        else:
            self.facts.append(item)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Memories by tenant, and questions to each; `problems` are lines that could not be read."""

    name: str
    memories: Mapping[str, Memory]
    queries: Sequence[Query]
    problems: Sequence[Problem] = ()

    @property
    def segment_count(self) -> int:
        """Segments of all tenants."""
        return sum(len(memory.segments) for memory in self.memories.values())

    @property
    def fact_count(self) -> int:
        """Facts of all tenants."""
        return sum(len(memory.facts) for memory in self.memories.values())

    @property
    def judged(self) -> list[Query]:
        """The questions that say something about quality."""
        return [query for query in self.queries if query.judged]


def read_collection(folder: Path, *, query_limit: int | None = None, seed: int = 0) -> Collection:
    """Reads an evaluation set.

    Its scopes become tenants; what has none goes to one named after the folder.
    Questions are in random order, so that neighbours ask different tenants.

    Args:
        folder: Has `corpus.jsonl`, `queries.jsonl`, `qrels.tsv`, and where there are any
            `facts.jsonl` and `triples.jsonl`.
        query_limit: At most this many questions.
        seed: Of their order.

    Raises:
        OSError: A file is missing.
    """
    problems: list[Problem] = []
    name = folder.resolve().name
    paths = [folder / CORPUS, *(folder / file for file in RELATIONS if (folder / file).exists())]
    memories: defaultdict[str, Memory] = defaultdict(Memory)
    for found in read_items([str(path) for path in paths], problems.append):
        memories[found.scope or name].add(found.item)
    judgments = read_judgments(folder / JUDGMENTS)
    lines = read_lines(str(folder / QUERIES), problems.append)
    to_query = partial(_to_query, name, judgments)
    queries = list(read_records(lines, to_query, problems.append))
    random.Random(seed).shuffle(queries)
    return Collection(
        name=name, memories=dict(memories), queries=queries[:query_limit], problems=problems
    )


def read_judgments(path: Path) -> dict[str, frozenset[str]]:
    """The relevant ids of each question: those of a grade above 0."""
    relevant: defaultdict[str, set[str]] = defaultdict(set)
    for line in path.read_text(encoding="utf-8").splitlines():
        query, id_, grade = line.split("\t")
        if int(grade) > 0:
            relevant[query].add(id_)
    return {query: frozenset(ids) for query, ids in relevant.items()}


def _to_query(name: str, judgments: Mapping[str, frozenset[str]], record: Record) -> Query:
    id_ = record.needed("id")
    return Query(
        id=id_,
        tenant=record.string("scope") or name,
        text=record.needed("text"),
        as_of=record.time("as_of"),
        category=record.string("category"),
        relevant=judgments.get(id_, frozenset()),
    )
