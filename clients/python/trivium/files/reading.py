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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

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

SEGMENT_FIELDS = frozenset(
    {
        "_id",
        "id",
        "text",
        "title",
        "speaker",
        "timestamp",
        "session",
        "entities",
        "kind",
        "importance",
        "sensitive",
        "labels",
        "entity",
        "keywords",
        "created_at",
        "expires_at",
        "metadata",
        "scope",
    }
)
RELATION_FIELDS = frozenset(
    {
        "id",
        "subject",
        "relation",
        "object",
        "sentence",
        "doc_id",
        "evidence",
        "timestamp",
        "valid_from",
        "valid_to",
        "retracted_at",
        "weight",
        "sensitive",
        "closes",
        "single_valued",
        "expires_at",
        "scope",
    }
)
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
    text = record.needed("text")
    said = (record.string("session"), record.string("speaker"), text, record.string("timestamp"))
    has_id = not record.fields.keys().isdisjoint({"id", "_id"})
    segment = Segment(
        id=identifier(record) if has_id else stable_id("segment", *said),
        text=text,
        title=record.string("title"),
        kind=record.string("kind"),
        speaker=record.string("speaker"),
        session=record.string("session"),
        event_time=record.time("timestamp"),
        importance=record.number("importance"),
        sensitive=record.flag("sensitive"),
        labels=record.labels("labels"),
        entities=record.strings("entities"),
        entity=record.string("entity"),
        keywords=record.strings("keywords"),
        created_at=record.time("created_at"),
        expires_at=record.time("expires_at"),
    )
    return Found(segment, record.string("scope"), record.place)


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
    subject, relation, object_ = (record.needed(name) for name in ("subject", "relation", "object"))
    evidence = record.strings("evidence") or record.strings("doc_id")
    said_at = record.string("timestamp")
    fact = Fact(
        id=record.string("id") or stable_id("fact", subject, relation, object_, *evidence, said_at),
        subject=subject,
        relation=relation,
        object=object_,
        sentence=record.string("sentence") or (object_ if relation == OBSERVATION else ""),
        valid_from=record.time("valid_from"),
        valid_to=record.time("valid_to"),
        recorded_at=record.time("timestamp"),
        retracted_at=record.time("retracted_at"),
        evidence=evidence,
        weight=record.number("weight"),
        sensitive=record.flag("sensitive"),
        closes=record.strings("closes"),
        single_valued=record.flag("single_valued"),
        expires_at=record.time("expires_at"),
    )
    return Found(fact, record.string("scope"), record.place)


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
