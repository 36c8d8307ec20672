"""Reads conversations, facts and questions from files.

There are three kinds of file, told apart by their first line, whatever their names:

* *segments*, JSON lines with `id` and `text`, and as wanted `title`, `speaker`,
  `timestamp`, `session`, `entities`, `kind`, `importance`, `sensitive`, `labels`,
  `entity`, `scope`. A corpus of BEIR is read as it comes: its `_id` is the id, and
  its `metadata` is not read;
* *relations*, JSON lines with `subject`, `relation`, `object`, and as wanted `id`,
  `sentence`, `doc_id` or `evidence`, `timestamp`, `valid_from`, `valid_to`,
  `retracted_at`, `weight`, `sensitive`, `closes`, `single_valued`, `scope`. One
  that begins with "mentions" says that the segment `doc_id` names the object and,
  where the subject is that segment's title, relates the two as well; every other
  one is a fact;
* *transcripts*, which do not begin with "{": lines of `Speaker: text`, one session a
  file. Their ids come from what was said, so that reading a file again, or a longer
  one, changes nothing.

With relations, the titles and speakers of the segments beside them are entities
too. Times without a zone are in UTC. Lines that cannot be read are reported and
left out.
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

from trivium.records import (
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
"""How the relations begin that say what a segment names."""

OBSERVATION = "observation"
"""The relation whose object is a whole sentence."""

_SEGMENT_FIELDS = frozenset(
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
        "metadata",
        "scope",
    }
)
_RELATION_FIELDS = frozenset(
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
        "scope",
    }
)
# What begins with "{" is an object that lies in a transcript, and nobody's turn.
_SPOKEN = re.compile(r"(?P<speaker>[^:{][^:]{0,63}):\s+(?P<text>\S.*)")


_Found = TypeVar("_Found", bound=Item, covariant=True)


@dataclass(frozen=True, slots=True)
class Found(Generic[_Found]):
    """An item, the scope it was written for (empty if none), and where it stands."""

    item: _Found
    scope: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question; `answer` has the ids of what answers it, where the file says so."""

    text: str
    id: str = ""
    answer: tuple[str, ...] = ()
    answerable: bool = True
    road: str = ""
    as_of: datetime | None = None
    scope: str = ""


def read_items(paths: Sequence[str], report: Report) -> Iterator[Found[Item]]:
    """Reads segments and facts; relations first, since they tell what segments name.

    Files of segments are read as their items are asked for; relations are kept.

    Args:
        paths: The files; "-" is standard input.
        report: Called with what could not be read.

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
    yield from relations.left_over()


def read_questions(path: str, report: Report) -> list[Question]:
    """Reads JSON lines with `text` and as wanted `id`, `answer`, `answerable`, `road`, `as_of`.

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
    """Tells relations by the first line that can be read; those before it are reported later."""
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
        # A file's name may be bytes that are no text.
        session = Path(line.place.file).stem.encode(errors="replace").decode()
        said_before[speaker, text] += 1
        id_ = stable_id("turn", session, speaker, text, said_before[speaker, text])
        turn = Segment(id=id_, text=text, speaker=speaker, session=session)
        yield Found(turn, "", line.place)


# ---------------------------------------------------------------- records


def _to_segment(record: Record) -> Found[Segment]:
    if "subject" in record.fields:
        raise ValueError("is a relation among segments; relations need a file of their own")
    record.check_names(_SEGMENT_FIELDS)
    segment = Segment(
        id=identifier(record),
        text=record.needed("text"),
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
    )
    return Found(segment, record.string("scope"), record.place)


def identifier(record: Record) -> str:
    """The id of a segment or a question, which BEIR calls `_id`.

    Raises:
        ValueError: It has none, or both.
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
    )
    return Found(fact, record.string("scope"), record.place)


def _to_question(record: Record) -> Question:
    return Question(
        text=record.needed("text"),
        id=record.string("id"),
        answer=record.strings("answer"),
        answerable=record.flag("answerable", default=True),
        road=record.string("road"),
        as_of=record.time("as_of"),
        scope=record.string("scope"),
    )


def stable_id(kind: str, *parts: str | int) -> str:
    """An id that is the same whenever the parts are."""
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{kind}-{digest[:20]}"


# ---------------------------------------------------------------- relations


class _Mention(NamedTuple):
    """That a segment names the object of `fact`, which says it of the segment's title."""

    segment_id: str
    fact: Found[Fact]


class _Relations:
    """Facts, and what each segment is said to mention."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._facts: list[Found[Fact]] = []
        self._mentions: dict[tuple[str, str], list[_Mention]] = defaultdict(list)
        self._joined: set[tuple[str, str]] = set()
        self._given = False

    def read(self, lines: Iterator[Line]) -> None:
        """Takes the facts and mentions of a file."""
        self._given = True
        for relation in read_records(lines, _to_relation, self._report):
            if isinstance(relation, _Mention):
                self._mentions[relation.fact.scope, relation.segment_id].append(relation)
            else:
                self._facts.append(relation)

    def joined(self, segments: Iterator[Found[Segment]]) -> Iterator[Found[Item]]:
        """Adds to each segment the entities it mentions; after it come its title's facts."""
        for found in segments:
            key = (found.scope, found.item.id)
            mentions = self._mentions.get(key, [])
            self._joined.add(key)
            yield replace(found, item=self._with_entities(found.item, mentions))
            for mention in mentions:
                if mention.fact.item.subject == found.item.title:
                    yield mention.fact

    def left_over(self) -> Iterator[Found[Fact]]:
        """The facts; reports the mentions whose segment was not there."""
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
    record.check_names(_RELATION_FIELDS)
    fact = _to_fact(record)
    if not fact.item.relation.startswith(MENTIONS):
        return fact
    if not fact.item.evidence:
        raise ValueError("'doc_id' is missing: which segment mentions it?")
    return _Mention(fact.item.evidence[0], fact)
