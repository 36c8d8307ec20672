"""Reads evaluation sets: segments, facts, questions and judgments by tenant.

A collection is a folder in the format of BEIR: `corpus.jsonl`, `queries.jsonl` and judgments.
Public downloads are read unchanged (`_id`, `qrels/test.tsv` with a header line, fractional
grades). Optional additions are scopes, times, categories, facts and relations.

Source:
    Thakur et al., "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information
    Retrieval Models", NeurIPS 2021.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from serving.domain.items import records
from serving.domain.items.text import text_to_embed
from trivium.files.reading import identifier, read_items
from trivium.files.records import Problem, Record, Report, read_lines, read_records
from trivium.values import Fact, Item, Segment

CORPUS = "corpus.jsonl"
QUERIES = "queries.jsonl"
JUDGMENTS = ("qrels.tsv", "qrels/test.tsv")
"""Paths of judgments; the first that is there is read."""

OUTDATED, HOLDS, TRAPS = "outdated.tsv", "holds.tsv", "traps.tsv"
"""Lines of question and segment, where values change over time or seem to."""

RELATIONS = ("facts.jsonl", "triples.jsonl")

ADVERSARIAL = "adversarial"
"""LoCoMo's category of questions that the conversation does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question of a collection; `grades` has the segments that answer it.

    `category` is what the set itself calls it; `stratum` how far its words are from its answer's.
    `outdated` are the segments that state a value no longer valid. `holds` are those that still
    hold though something later looks like their successor: `traps`.
    """

    id: str
    tenant: str
    text: str
    as_of: datetime | None = None
    category: str = ""
    stratum: str = ""
    grades: Mapping[str, float] = field(default_factory=dict)
    outdated: frozenset[str] = frozenset()
    holds: frozenset[str] = frozenset()
    traps: frozenset[str] = frozenset()

    @property
    def relevant(self) -> frozenset[str]:
        """The segments that answer it."""
        return frozenset(self.grades)

    @property
    def current(self) -> frozenset[str]:
        """Those of the highest grade."""
        best = max(self.grades.values(), default=0.0)
        return frozenset(segment for segment, grade in self.grades.items() if grade == best)

    @property
    def judged(self) -> bool:
        """Whether it says anything about quality."""
        return bool(self.grades) and self.category != ADVERSARIAL


@dataclass(frozen=True, slots=True)
class Memory:
    """The items of one tenant."""

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
    """Memories by tenant, and questions to each.

    `problems` are lines that could not be read; `given_as` is what names it in a command, where
    that is more than its name.
    """

    name: str
    memories: Mapping[str, Memory]
    queries: Sequence[Query]
    problems: Sequence[Problem] = ()
    given_as: Sequence[str] = ()

    @property
    def segments(self) -> list[Segment]:
        """Segments of all tenants."""
        return [segment for memory in self.memories.values() for segment in memory.segments]

    @property
    def fact_count(self) -> int:
        """The number of facts of all tenants."""
        return sum(len(memory.facts) for memory in self.memories.values())

    @property
    def judged(self) -> list[Query]:
        """The questions that say something about quality."""
        return [query for query in self.queries if query.judged]


def read_collection(folder: Path, *, query_limit: int | None = None) -> Collection:
    """Reads the files of a set; at most `query_limit` questions.

    Its scopes become tenants; what has none goes to one named after the folder. Questions are in
    random order, so that neighbours ask different tenants.

    Raises:
        OSError: A file is missing.
    """
    problems: list[Problem] = []
    name = folder.resolve().name
    paths = [folder / CORPUS, *(folder / file for file in RELATIONS if (folder / file).exists())]
    memories: defaultdict[str, Memory] = defaultdict(Memory)
    for found in read_items([str(path) for path in paths], problems.append):
        memories[found.scope or name].add(found.item)
    known = {segment.id for memory in memories.values() for segment in memory.segments}
    judgments = [folder / file for file in JUDGMENTS]
    judged = next((path for path in judgments if path.exists()), judgments[0])
    grades = _read_grades(judged, problems.append, known)
    outdated, holds, traps = (_read_pairs(folder / file) for file in (OUTDATED, HOLDS, TRAPS))
    seen: set[str] = set()

    def to_query(record: Record) -> Query:
        id_ = identifier(record)
        if id_ in seen:
            raise ValueError(f"is a second question of the id {id_!r}")
        seen.add(id_)
        return Query(
            id=id_,
            tenant=record.string("scope") or name,
            text=record.needed("text"),
            as_of=record.time("as_of"),
            category=record.string("category"),
            stratum=record.string("stratum"),
            grades=grades[id_],
            outdated=frozenset(outdated[id_]),
            holds=frozenset(holds[id_]),
            traps=frozenset(traps[id_]),
        )

    lines = read_lines(str(folder / QUERIES), problems.append)
    queries = list(read_records(lines, to_query, problems.append))
    random.Random(0).shuffle(queries)
    return Collection(
        name=name, memories=dict(memories), queries=queries[:query_limit], problems=problems
    )


def left_without_facts(collection: Collection) -> Collection:
    """The same set without its facts and relations, under another name."""
    return replace(
        collection,
        name=f"{collection.name}-without-facts",
        memories={
            tenant: Memory(memory.segments) for tenant, memory in collection.memories.items()
        },
        given_as=(*(collection.given_as or (collection.name,)), "--without-facts"),
    )


def _read_grades(path: Path, report: Report, known: Set[str]) -> defaultdict[str, dict[str, float]]:
    """The grades above 0 of each question, by segment.

    A line is a question, a segment and a grade with tabs between; a first one whose grade is no
    number has headings. Others that cannot be read, or name an unknown segment, are reported.
    """
    grades: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for number, line in enumerate(read_lines(str(path), report)):
        try:
            query, segment, grade = line.text.split("\t")
        except ValueError:
            what = "is not a question, a segment and a grade with tabs between"
            report(Problem(line.place, f"{what}: {line.text!r}"))
            continue
        try:
            value = float(grade)
        except ValueError:
            if number > 0:
                report(Problem(line.place, f"the grade is not a number: {grade!r}"))
            continue
        if value > 0:
            if segment not in known:
                report(Problem(line.place, f"judges {segment!r}, which is not in {CORPUS}"))
            grades[query][segment] = value
    return grades


def _read_pairs(path: Path) -> defaultdict[str, set[str]]:
    """The segments of each question; empty if the set has no such file."""
    pairs: defaultdict[str, set[str]] = defaultdict(set)
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        query, segment = line.split("\t")
        pairs[query].add(segment)
    return pairs


UNDATED = datetime(1970, 1, 1, tzinfo=UTC)


def as_stored(segment: Segment) -> records.Segment:
    """A segment as the service stores it, in what its text is embedded with."""
    return records.Segment(
        id=segment.id,
        text=segment.text,
        title=segment.title,
        speaker=segment.speaker,
        event_time=segment.event_time or UNDATED,
    )


def as_embedded(segment: Segment) -> str:
    """The form of a segment that the service embeds."""
    return text_to_embed(as_stored(segment))
