"""COGX: an archive of cognee, a folder with JSON lines for each kind of record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from trivium.files.reading import Found
from trivium.files.records import Problem, Record
from trivium.values import Fact, Item, Segment
from trivium_importers.attributes import first_values, keywords, labels, times
from trivium_importers.translation import Exported, Mapped, Translate, Translation

MAJOR_VERSION = "0"
SECRETS = "permissions.json"
"""A file of an archive with password hashes, of which nothing is shown."""
RAW_NODE = "raw_node"
TEXTS = ("document", "memory", "episode")
"""The kinds of record that mention entities and are evidence of facts."""


@dataclass(frozen=True, slots=True)
class _Archive:
    """The records by kind, and what the translation of one must know of the others, by id."""

    records: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    names: dict[str, str] = field(default_factory=dict)
    """Of entities and other named nodes."""
    segments: dict[str, list[str]] = field(default_factory=dict)
    """Of texts: the ids of their segments."""
    nameless: set[str] = field(default_factory=set)
    """Nodes that no fact can be about."""
    mentions: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Of texts: the names of their entities."""


def items(records: Iterable[Record], translation: Translation) -> Iterator[Found[Item]]:
    """Texts, turns, memories and descriptions become segments, and facts facts."""
    archive = _Archive()
    manifests = []
    for record in records:
        if Path(record.place.file).name == SECRETS:
            translation.leave_out("permissions", record.place, "(not shown)")
        elif "cogx_version" in record.fields:
            manifests.append(record)
        else:
            archive.records[_kind(record)].append(record)
    for manifest in manifests:
        _compare(manifest, archive, translation)
    _read_ids(archive)
    facts = [fact for fact in archive.records["fact"] if not _is_left(archive, fact, translation)]
    translations = _translations(archive)
    for kind, listed in {**archive.records, "fact": facts}.items():
        for record in listed:
            if translate := translations.get(kind):
                yield from translation.items(kind, record, translate)
            else:
                translation.leave_out(kind, record.place, dict(record.fields))


def _translations(archive: _Archive) -> Mapping[str, Translate]:
    return {
        "document": partial(_text, archive, "note"),
        "memory": partial(_text, archive, "memory"),
        "episode": partial(_episode, archive),
        "entity": _entity,
        "memory_block": _block,
        "fact": partial(_fact, archive),
    }


def _kind(record: Record) -> str:
    """The kind of a record; raw nodes have neither a kind nor an external id."""
    return _string(record, "kind") if "external_id" in record.fields else RAW_NODE


def _compare(manifest: Record, archive: _Archive, translation: Translation) -> None:
    """Reports an archive of another version, or of which records are missing."""
    version = str(manifest.fields["cogx_version"])
    if version.partition(".")[0] != MAJOR_VERSION:
        problem = f"is of version {version}; known is {MAJOR_VERSION}"
        translation.problems.append(Problem(manifest.place, problem))
    counts = manifest.fields.get("counts")
    for kind, count in counts.items() if isinstance(counts, dict) else ():
        if count != (found := len(archive.records[kind])):
            problem = f"counts {count} records of kind {kind}; the files have {found}"
            translation.problems.append(Problem(manifest.place, problem))


def _read_ids(archive: _Archive) -> None:
    for kind in TEXTS:
        for text in archive.records[kind]:
            id_ = _string(text, "external_id")
            archive.segments[id_] = _turn_ids(text, id_) if kind == "episode" else [id_]
    for entity in archive.records["entity"]:
        archive.names[_string(entity, "external_id")] = _string(entity, "name")
    for node in archive.records[RAW_NODE]:
        if name := _string(node, "name"):
            archive.names.setdefault(_string(node, "id"), name)
        else:
            archive.nameless.add(_string(node, "id"))


def _turn_ids(episode: Record, id_: str) -> list[str]:
    turns = episode.fields.get("turns")
    return [f"{id_}/{number}" for number, _ in enumerate(turns if isinstance(turns, list) else ())]


def _is_left(archive: _Archive, fact: Record, translation: Translation) -> bool:
    """Whether a fact does not become one: it is a mention, or about what has no name."""
    subject, object_ = _string(fact, "subject_ref"), _string(fact, "object_ref")
    if subject in archive.segments and object_ in archive.names:
        archive.mentions[subject].append(archive.names[object_])
        translation.mapped[Mapped("fact", "mention")] += 1
        return True
    if any(each in archive.nameless or each in archive.segments for each in (subject, object_)):
        translation.leave_out("fact", fact.place, dict(fact.fields))
        return True
    return False


def _string(record: Record, name: str) -> str:
    """A field before its record is checked."""
    value = record.fields.get(name)
    return value if isinstance(value, str) else ""


# ---------------------------------------------------------------- translations


def _text(archive: _Archive, kind: str, record: Exported) -> Iterator[Found[Item]]:
    segment = _segment(record, record.needed("content"))
    mentioned = first_values(record, "mentions", archive.mentions[segment.id])
    yield _found(
        record,
        replace(
            segment,
            kind=kind,
            title=record.string("title"),
            entities=mentioned,
            keywords=keywords(record, "categories"),
        ),
    )


def _episode(archive: _Archive, episode: Exported) -> Iterator[Found[Item]]:
    """Each turn is a segment, with the id of the episode and its number."""
    whole = _segment(episode, "")
    mentioned = first_values(episode, "mentions", archive.mentions[whole.id])
    for number, turn in enumerate(episode.each("turns")):
        content, said_at = turn.string("content"), turn.time("occurred_at")
        if not content.strip():
            turn.leave_out("content", f"turn {number} is blank")
            continue
        segment = replace(
            whole,
            id=f"{whole.id}/{number}",
            text=content,
            speaker=turn.string("role"),
            session=whole.session or whole.id,
            event_time=said_at or whole.event_time,
            entities=mentioned,
        )
        yield _found(episode, segment)


def _entity(entity: Exported) -> Iterator[Found[Item]]:
    """The description of an entity; without one, only its name is used."""
    name, description = entity.needed("name"), entity.string("description")
    _id(entity)
    if not description.strip():
        return
    segment = _segment(entity, description)
    yield _found(
        entity,
        replace(
            segment,
            title=name,
            kind=entity.string("entity_type").lower() or "entity",
            entity=name,
            keywords=keywords(entity, "aliases"),
            labels=labels(entity, "attributes", given=segment.labels),
        ),
    )


def _block(block: Exported) -> Iterator[Found[Item]]:
    segment = _segment(block, block.needed("value"))
    yield _found(block, replace(segment, kind="block", title=block.needed("label")))


def _fact(archive: _Archive, fact: Exported) -> Iterator[Found[Item]]:
    subject, object_ = fact.needed("subject_ref"), fact.needed("object_ref")
    named = fact.strings("provenance")
    evidence = [id_ for each in named for id_ in archive.segments.get(each, [each])]
    item = Fact(
        id=_id(fact),
        subject=archive.names.get(subject, subject),
        relation=fact.needed("predicate"),
        object=archive.names.get(object_, object_),
        sentence=fact.string("fact_text"),
        valid_from=fact.time("valid_at"),
        valid_to=fact.time("invalid_at"),
        recorded_at=fact.time("created_at"),
        evidence=first_values(fact, "provenance", evidence),
        weight=fact.number("confidence"),
    )
    yield fact.found(item, fact.within("scope").string("user_id"))


def _segment(record: Exported, text: str) -> Segment:
    """The fields that all kinds of record have."""
    created, changed = times(record)
    scope = record.within("scope")
    owners = labels(scope, "user_id", "agent_id", given=changed)
    return Segment(
        id=_id(record),
        text=text,
        session=scope.first("session_id", "run_id"),
        event_time=created,
        labels=labels(record, "external_system", "metadata", given=owners),
    )


def _id(record: Exported) -> str:
    """The id of a record, whose kind has chosen its translation."""
    record.string("kind")
    return record.needed("external_id")


def _found(record: Exported, segment: Segment) -> Found[Item]:
    return record.found(segment, segment.labels.get("user_id", ""))
