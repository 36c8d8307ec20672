"""Reads conversations, facts and questions from files.

There are three kinds of file, distinguished by their first line:

* *segments*, JSON lines with `text`, and optionally `id`, `title`, `speaker`,
  `timestamp`, `session`, `entities`, `kind`, `importance`, `sensitive`, `labels`,
  `entity`, `keywords`, `created_at`, `expires_at`, `scope`. Without an `id`, one is
  derived from session, speaker, text and timestamp. A BEIR corpus is also
  accepted: its `_id` is the id, and its `metadata` is ignored;
* *relations*, JSON lines with `subject`, `relation`, `object`, and optionally `id`,
  `sentence`, `doc_id` or `evidence`, `timestamp`, `valid_from`, `valid_to`,
  `retracted_at`, `weight`, `sensitive`, `closes`, `single_valued`, `expires_at`,
  `scope`. A relation that begins with "mentions" means that the segment `doc_id`
  mentions the object; if the subject is the segment's title, it is also a fact. Every
  other relation is a fact, and so is one with an `id` and no `doc_id`;
* *transcripts*, which do not begin with "{": lines of `Speaker: text`, one session
  per file. Ids are derived from the text, so that reading the file again, also when
  it has grown, does not change them.

If there are relations, the titles and speakers of segments are entities too. Times
without a time zone are in UTC. Lines that cannot be read are reported and skipped.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from trivium.files.records import (
    Line,
    Place,
    Problem,
    Record,
    Report,
    read_lines,
    read_record,
    read_records,
)
from trivium.values import Fact, Item, Segment

MENTIONS = "mentions"
"""The prefix of relations that list the entities of a segment."""

OBSERVATION = "observation"
"""The relation whose object is a sentence."""

Reader = Callable[[Record, str], object]

SEGMENT: Mapping[str, tuple[str, Reader]] = {
    "id": ("id", Record.string),
    "text": ("text", Record.needed),
    "title": ("title", Record.string),
    "kind": ("kind", Record.string),
    "speaker": ("speaker", Record.string),
    "session": ("session", Record.string),
    "timestamp": ("event_time", Record.time),
    "importance": ("importance", Record.number),
    "sensitive": ("sensitive", Record.flag),
    "labels": ("labels", Record.labels),
    "entities": ("entities", Record.strings),
    "entity": ("entity", Record.string),
    "keywords": ("keywords", Record.strings),
    "created_at": ("created_at", Record.time),
    "expires_at": ("expires_at", Record.time),
}
"""The fields of a segment in a file, each with that of `Segment`, and its type."""

FACT: Mapping[str, tuple[str, Reader]] = {
    "id": ("id", Record.string),
    "subject": ("subject", Record.needed),
    "relation": ("relation", Record.needed),
    "object": ("object", Record.needed),
    "sentence": ("sentence", Record.string),
    "valid_from": ("valid_from", Record.time),
    "valid_to": ("valid_to", Record.time),
    "timestamp": ("recorded_at", Record.time),
    "retracted_at": ("retracted_at", Record.time),
    "evidence": ("evidence", Record.strings),
    "weight": ("weight", Record.number),
    "sensitive": ("sensitive", Record.flag),
    "closes": ("closes", Record.strings),
    "single_valued": ("single_valued", Record.flag),
    "expires_at": ("expires_at", Record.time),
}
"""The fields of a relation in a file, each with that of `Fact`, and its type."""

SEGMENT_FIELDS = frozenset({*SEGMENT, "_id", "metadata", "scope"})
RELATION_FIELDS = frozenset({*FACT, "doc_id", "scope"})
# A line that begins with "{" is a stray JSON object, not a turn.
_SPOKEN = re.compile(r"(?P<speaker>[^:{][^:]{0,63}):\s+(?P<text>\S.*)")


_Found = TypeVar("_Found", bound=Item, covariant=True)


@dataclass(frozen=True, slots=True)
class Found(Generic[_Found]):
    """An item, its scope (empty if none), and its place in the file."""

    item: _Found
    scope: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question; `answer` has the ids of the items that answer it, if known."""

    text: str
    id: str = ""
    answer: tuple[str, ...] = ()
    answerable: bool = True
    retriever: str = ""
    as_of: datetime | None = None
    scope: str = ""


def read_items(paths: Sequence[str], report: Report) -> Iterator[Found[Item]]:
    """Reads segments and facts; relations first, since they have the entities of segments.

    Files of segments are read lazily; relations are held in memory.

    Args:
        paths: The files; "-" is standard input.
        report: Called for each line that cannot be read.

    Raises:
        OSError: A file cannot be read.
    """
    files = [_open(path, report) for path in paths]
    relations = _Relations(report)
    for file in files:
        if file.kind == "relations":
            relations.read(file.lines)
    for file in files:
        if file.kind == "transcript":
            yield from _read_transcript(file.lines, report)
        elif file.kind == "segments":
            yield from relations.joined(read_records(file.lines, _to_segment, report))
    yield from relations.remaining()


def read_questions(path: str, report: Report) -> list[Question]:
    """Reads JSON lines with `text`, optionally `id`, `answer`, `answerable`, `retriever`, `as_of`.

    Raises:
        OSError: The file cannot be read.
    """
    return list(read_records(read_lines(path, report), _to_question, report))


# ---------------------------------------------------------------- files


_Kind = Literal["segments", "relations", "transcript"]


class _File(NamedTuple):
    kind: _Kind
    lines: Iterator[Line]


def _open(path: str, report: Report) -> _File:
    lines = read_lines(path, report)
    first = next(lines, None)
    if first is None:
        return _File("segments", iter(()))
    every_line = itertools.chain([first], lines)
    if not first.text.startswith("{"):
        return _File("transcript", every_line)
    return _open_objects(every_line)


def _open_objects(lines: Iterator[Line]) -> _File:
    """Detects relations by the first valid line; invalid lines before it are reported later."""
    begun = []
    for line in lines:
        begun.append(line)
        try:
            kind: _Kind = "relations" if "subject" in read_record(line).fields else "segments"
        except ValueError:
            continue
        return _File(kind, itertools.chain(begun, lines))
    return _File("segments", iter(begun))


def _read_transcript(lines: Iterator[Line], report: Report) -> Iterator[Found[Segment]]:
    said_before: Counter[tuple[str, str]] = Counter()
    for line in lines:
        spoken = _SPOKEN.fullmatch(line.text)
        if spoken is None:
            report(Problem(line.place, "is not of the form 'Speaker: text'"))
            continue
        speaker, text = spoken["speaker"].strip(), spoken["text"]
        # The name of a file may not be valid UTF-8.
        session = Path(line.place.file).stem.encode(errors="replace").decode()
        said_before[speaker, text] += 1
        id_ = stable_id("turn", session, speaker, text, said_before[speaker, text])
        turn = Segment(id=id_, text=text, speaker=speaker, session=session)
        yield Found(turn, "", line.place)


# ---------------------------------------------------------------- records


def _to_segment(record: Record) -> Found[Segment]:
    if "subject" in record.fields:
        raise ValueError("is a relation; relations and segments must be in separate files")
    record.check_names(SEGMENT_FIELDS)
    fields = _read(record, SEGMENT)
    if record.fields.keys().isdisjoint({"id", "_id"}):
        said = (fields["session"], fields["speaker"], fields["text"], record.string("timestamp"))
        fields["id"] = stable_id("segment", *said)
    else:
        fields["id"] = identifier(record)
    return Found(Segment(**fields), record.string("scope"), record.place)


def _read(record: Record, form: Mapping[str, tuple[str, Reader]]) -> dict[str, Any]:
    return {field: read(record, name) for name, (field, read) in form.items()}


def identifier(record: Record) -> str:
    """The id of a segment or question, in the field `id`, or `_id` as in BEIR.

    Raises:
        ValueError: The record has neither field, or both.
    """
    if "_id" not in record.fields:
        return record.needed("id")
    if "id" in record.fields:
        raise ValueError("has both 'id' and '_id'")
    return record.needed("_id")


def _to_fact(record: Record) -> Found[Fact]:
    fields = _read(record, FACT)
    fields["evidence"] = fields["evidence"] or record.strings("doc_id")
    if fields["relation"] == OBSERVATION:
        fields["sentence"] = fields["sentence"] or fields["object"]
    if not fields["id"]:
        related = (fields["subject"], fields["relation"], fields["object"], *fields["evidence"])
        fields["id"] = stable_id("fact", *related, record.string("timestamp"))
    return Found(Fact(**fields), record.string("scope"), record.place)


def _to_question(record: Record) -> Question:
    return Question(
        text=record.needed("text"),
        id=record.string("id"),
        answer=record.strings("answer"),
        answerable=record.flag("answerable", default=True),
        retriever=record.string("retriever"),
        as_of=record.time("as_of"),
        scope=record.string("scope"),
    )


def stable_id(kind: str, *parts: str | int) -> str:
    """An id derived from the parts only."""
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{kind}-{digest[:20]}"


# ---------------------------------------------------------------- relations


class _Mention(NamedTuple):
    """A segment that mentions the object of `fact`."""

    segment_id: str
    fact: Found[Fact]


class _Relations:
    """The facts, and the mentions of each segment."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._facts: list[Found[Fact]] = []
        self._mentions: dict[tuple[str, str], list[_Mention]] = defaultdict(list)
        self._joined: set[tuple[str, str]] = set()
        self._given = False

    def read(self, lines: Iterator[Line]) -> None:
        """Reads the facts and mentions of a file."""
        self._given = True
        for relation in read_records(lines, _to_relation, self._report):
            if isinstance(relation, _Mention):
                self._mentions[relation.fact.scope, relation.segment_id].append(relation)
            else:
                self._facts.append(relation)

    def joined(self, segments: Iterator[Found[Segment]]) -> Iterator[Found[Item]]:
        """Yields each segment with the entities it mentions, and then the facts about its title."""
        for found in segments:
            key = (found.scope, found.item.id)
            mentions = self._mentions.get(key, [])
            self._joined.add(key)
            yield replace(found, item=self._with_entities(found.item, mentions))
            for mention in mentions:
                if mention.fact.item.subject == found.item.title:
                    yield mention.fact

    def remaining(self) -> Iterator[Found[Fact]]:
        """Yields the facts; reports mentions whose segment is missing."""
        yield from self._facts
        for key, mentions in self._mentions.items():
            if key not in self._joined:
                problem = f"mentions of the segment {key[1]!r}, which is not in these files"
                self._report(Problem(mentions[0].fact.place, problem))

    def _with_entities(self, segment: Segment, mentions: Sequence[_Mention]) -> Segment:
        if not self._given:
            return segment
        named = [*segment.entities, segment.title, segment.speaker]
        named += [mention.fact.item.object for mention in mentions]
        return replace(segment, entities=tuple(dict.fromkeys(filter(None, named))))


def _to_relation(record: Record) -> Found[Fact] | _Mention:
    record.check_names(RELATION_FIELDS)
    fact = _to_fact(record)
    # An exported fact may have any relation; it has an id, and no `doc_id`.
    is_exported = "id" in record.fields and "doc_id" not in record.fields
    if is_exported or not fact.item.relation.startswith(MENTIONS):
        return fact
    if not fact.item.evidence:
        raise ValueError("'doc_id' is missing: it names the segment of the mention")
    return _Mention(fact.item.evidence[0], fact)
