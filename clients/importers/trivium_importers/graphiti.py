"""Graphiti and Zep: the nodes and edges of a graph, as their models write them as JSON."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from trivium.files.reading import Found
from trivium.files.records import Record
from trivium.values import Fact, Item, Segment
from trivium_importers.attributes import first_values, labels
from trivium_importers.exported import elements
from trivium_importers.translation import Exported, Mapped, Translate, Translation

LISTS: Mapping[str, str] = {
    "episodes": "episode",
    "messages": "episode",
    "nodes": "node",
    "entities": "node",
    "edges": "edge",
    "facts": "edge",
    "communities": "community",
    "sagas": "saga",
}
"""The lists of a document, and the kind of record in them."""
SCOPES = ("group_id", "graph_uuid", "user_uuid")
SESSIONS = ("thread_uuid", "thread_id", "session_id")
"""Of versions 4, 3 and 2 of Zep's client."""
METADATA = ("episode_metadata", "metadata")
MESSAGE = "message"
ENTITY = "entity"
# Graphiti's form of an episode that is a message; several turns are one text.
_SPOKEN = re.compile(r"(?P<speaker>[^:\n]{1,64}): +(?P<text>[^\n]*\S)\s*")


@dataclass(frozen=True, slots=True)
class _Graph:
    """The records by kind, and what the translation of one must know of the others, by uuid."""

    records: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    names: dict[str, str] = field(default_factory=dict)
    """Of entities."""
    sagas: dict[str, str] = field(default_factory=dict)
    """The names of sagas."""
    episodes: set[str] = field(default_factory=set)
    sessions: dict[str, str] = field(default_factory=dict)
    """Of episodes: the names of their sagas."""
    mentions: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Of episodes: the names of their entities."""
    evidence: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Of edges: their episodes."""


def items(records: Iterable[Record], translation: Translation) -> Iterator[Found[Item]]:
    """Episodes and summaries become segments, and edges between entities facts."""
    graph = _Graph()
    for record in records:
        for kind, part in _parts(record, translation):
            graph.records[kind].append(_with_uuid(part))
    _read_names(graph)
    for link in graph.records["link"]:
        _read_link(graph, link, translation)
    for kind, translate in _translations(graph).items():
        for record in graph.records[kind]:
            yield from translation.items(kind, record, translate)


def _translations(graph: _Graph) -> Mapping[str, Translate]:
    return {
        "episode": partial(_episode, graph),
        "node": partial(_summary, ENTITY),
        "community": partial(_summary, "community"),
        "saga": partial(_summary, "saga"),
        "edge": partial(_edge, graph),
    }


def _parts(record: Record, translation: Translation) -> Iterator[tuple[str, Record]]:
    """The records of a document with lists, and their kinds."""
    named = LISTS.keys() & record.fields.keys()
    if {"uuid", "uuid_"} & record.fields.keys() or not named:
        yield _kind(record), record
        return
    for name in sorted(named):
        for each in elements(record, name, translation.problems.append):
            yield _kind(each, LISTS[name]), each
    for name in sorted(record.fields.keys() - named):
        translation.leave_out("document", record.place, record.fields[name], name)


def _with_uuid(record: Record) -> Record:
    """The record with the name that version 3 of Zep's client gives its `uuid`."""
    if "uuid_" not in record.fields:
        return record
    fields = dict(record.fields)
    fields["uuid"] = fields.pop("uuid_")
    return Record(record.place, fields)


def _kind(record: Record, listed: str = "node") -> str:
    """The kind of a record, by its fields, or else by the list that it is in."""
    fields = record.fields
    if "source_node_uuid" in fields:
        return "edge" if "fact" in fields else "link"
    if "content" in fields:
        return "episode"
    if "first_episode_uuid" in fields:
        return "saga"
    # The model of an entity always writes its attributes, that of a community has none.
    if "name_embedding" in fields and "attributes" not in fields:
        return "community"
    return listed


def _read_names(graph: _Graph) -> None:
    for kind, names in (("node", graph.names), ("saga", graph.sagas)):
        for node in graph.records[kind]:
            names[_string(node, "uuid")] = _string(node, "name")
    for episode in graph.records["episode"]:
        graph.episodes.add(_string(episode, "uuid"))
        edges = episode.fields.get("entity_edges")
        for edge in edges if isinstance(edges, list) else ():
            graph.evidence[str(edge)].append(_string(episode, "uuid"))


def _read_link(graph: _Graph, link: Record, translation: Translation) -> None:
    """Reads an edge without a fact: an episode mentions an entity, or a saga has an episode."""
    source, target = _string(link, "source_node_uuid"), _string(link, "target_node_uuid")
    if source in graph.episodes and target in graph.names:
        graph.mentions[source].append(graph.names[target])
        translation.mapped[Mapped("link", "mention")] += 1
    elif source in graph.sagas and target in graph.episodes:
        graph.sessions[target] = graph.sagas[source]
        translation.mapped[Mapped("link", "session")] += 1
    else:
        translation.leave_out("link", link.place, dict(link.fields))


def _string(record: Record, name: str) -> str:
    """A field before its record is checked."""
    value = record.fields.get(name)
    return value if isinstance(value, str) else ""


# ---------------------------------------------------------------- translations


def _episode(graph: _Graph, episode: Exported) -> Iterator[Found[Item]]:
    uuid, (speaker, role) = episode.needed("uuid"), _speaker(episode)
    is_message = episode.first("source") == MESSAGE or _is_of_thread(episode)
    text = episode.needed("content")
    if is_message and not speaker and (spoken := _SPOKEN.fullmatch(text)):
        speaker, text = spoken["speaker"].strip(), spoken["text"]
    segment = Segment(
        id=uuid,
        text=text,
        title="" if _is_of_thread(episode) else episode.string("name"),
        kind="turn" if is_message else "note",
        speaker=speaker,
        session=graph.sessions.get(uuid, "") or episode.first(*SESSIONS),
        event_time=_first_time(episode, "valid_at", "reference_time", "created_at"),
        labels=labels(episode, *SCOPES, "source_description", *METADATA, given=role),
        entities=first_values(episode, "mentions", graph.mentions[uuid]),
    )
    # Its edges name it as their evidence.
    episode.strings("entity_edges")
    yield episode.found(segment, episode.first(*SCOPES))


def _is_of_thread(episode: Exported) -> bool:
    """Whether it is a message of one of Zep's sessions or threads, and no episode of a graph."""
    return "source" not in episode.fields and bool({"role", "role_type"} & episode.fields.keys())


def _speaker(episode: Exported) -> tuple[str, dict[str, str]]:
    """The speaker, and a label with the role; each version of Zep names them otherwise."""
    if "role_type" in episode.fields:
        speaker, role = episode.string("role"), episode.string("role_type")
    elif _is_of_thread(episode):
        speaker, role = episode.string("name"), episode.string("role")
    else:
        speaker, role = episode.string("role_name"), episode.string("role")
    return speaker, {"role": role} if role else {}


def _summary(kind: str, node: Exported) -> Iterator[Found[Item]]:
    """The summary of a node; without one, only its name is used."""
    name, summary = node.needed("name"), node.string("summary")
    uuid, scope = node.needed("uuid"), node.first(*SCOPES)
    types = [each for each in node.strings("labels") if each != "Entity"]
    if not summary.strip():
        node.leave_out("labels", types)
        return
    segment = Segment(
        id=uuid,
        text=summary,
        title=name,
        kind=types[0].lower() if types else kind,
        session=name if kind == "saga" else "",
        event_time=node.time("created_at"),
        labels=labels(node, *SCOPES, "attributes"),
        entity=name if kind == ENTITY else "",
    )
    node.leave_out("labels", types[1:])
    yield node.found(segment, scope)


def _edge(graph: _Graph, edge: Exported) -> Iterator[Found[Item]]:
    uuid, ended = edge.needed("uuid"), edge.time("invalid_at")
    named = [*edge.strings("episodes"), *edge.strings("episode_uuids")]
    fact = Fact(
        id=uuid,
        subject=_end(graph, edge, "source"),
        relation=edge.needed("name"),
        object=_end(graph, edge, "target"),
        sentence=edge.string("fact"),
        valid_from=edge.time("valid_at"),
        valid_to=ended,
        recorded_at=edge.time("created_at"),
        # An edge that expired without an end is one that the graph no longer believes.
        retracted_at=None if ended else edge.time("expired_at"),
        evidence=first_values(edge, "episodes", [*named, *graph.evidence[uuid]]),
    )
    yield edge.found(fact, edge.first(*SCOPES))


def _end(graph: _Graph, edge: Exported, end: str) -> str:
    """The name of the entity at an end of an edge."""
    uuid, name = edge.needed(f"{end}_node_uuid"), edge.string(f"{end}_node_name")
    name = name or graph.names.get(uuid, "")
    if not name:
        raise ValueError(f"no node of these files is its {end}_node_uuid, {uuid!r}")
    return name


def _first_time(record: Exported, *names: str) -> datetime | None:
    return next(filter(None, (record.time(name) for name in names)), None)
