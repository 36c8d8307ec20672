"""Letta: an agent file (`.af`), or passages and messages as its API lists them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from trivium.files.reading import Found, stable_id
from trivium.files.records import Problem, Record
from trivium.values import Item, Segment
from trivium_importers.attributes import keywords, labels, times
from trivium_importers.exported import elements
from trivium_importers.translation import Exported, Translation

SPOKEN: Mapping[str, str] = {
    "user": "user",
    "assistant": "assistant",
    "user_message": "user",
    "assistant_message": "assistant",
}
"""The roles of messages in agent files, and the types of those in lists, that somebody said."""
SEND_MESSAGE = "send_message"
"""The tool with which older kinds of agents reply; the text with it is what they thought."""
LEGACY = "is an agent file of the legacy format; export it with use_legacy_format=False"


def items(records: Iterable[Record], translation: Translation) -> Iterator[Found[Item]]:
    """Messages, passages and blocks of memory become segments."""
    for record in records:
        if "agents" in record.fields:
            yield from _file(record, translation)
        elif "messages" in record.fields:
            translation.problems.append(Problem(record.place, LEGACY))
        elif "message_type" in record.fields:
            yield from _message(record, translation, "")
        else:
            yield from translation.items("passage", record, _passage)


def _file(file: Record, translation: Translation) -> Iterator[Found[Item]]:
    report = translation.problems.append
    owners: dict[str, str] = {}
    for agent in elements(file, "agents", report):
        translation.items("agent", agent, partial(_agent, owners))
        name = str(agent.fields.get("name") or "")
        for message in elements(agent, "messages", report):
            yield from _message(message, translation, name)
    for block in elements(file, "blocks", report):
        yield from translation.items("block", block, partial(_block, owners))
    for name, value in file.fields.items():
        if name not in ("agents", "blocks"):
            for each in value if isinstance(value, list) else [value]:
                translation.leave_out("agent file", file.place, each, name)


def _agent(owners: dict[str, str], agent: Exported) -> Iterator[Found[Item]]:
    """Reads which blocks are the agent's; its messages are records of their own."""
    name = agent.needed("name")
    owners.update(dict.fromkeys(agent.strings("block_ids"), name))
    agent.fields.get("messages")
    yield from ()


def _block(owners: Mapping[str, str], block: Exported) -> Iterator[Found[Item]]:
    """A block of core memory; the ids of an agent file are numbers within it."""
    label, value = block.needed("label"), block.string("value")
    agent = owners.get(block.string("id"), "")
    if not value.strip():
        return
    segment = Segment(
        id=stable_id("letta-block", agent, label),
        text=value,
        title=label,
        kind="block",
        session=agent,
        labels=labels(block, "metadata"),
        keywords=keywords(block, "tags"),
    )
    yield block.found(segment, agent)


def _passage(passage: Exported) -> Iterator[Found[Item]]:
    created, changed = times(passage)
    if passage.flag("is_deleted"):
        passage.leave_out("is_deleted", True)
        return
    segment = Segment(
        id=passage.needed("id"),
        text=passage.needed("text"),
        title=passage.string("file_name"),
        kind="note",
        event_time=created,
        labels=labels(passage, "archive_id", "metadata", given=changed),
        keywords=keywords(passage, "tags"),
    )
    yield passage.found(segment)


# ---------------------------------------------------------------- messages


def _message(message: Record, translation: Translation, agent: str) -> Iterator[Found[Item]]:
    role = str(message.fields.get("role") or message.fields.get("message_type"))
    if role in SPOKEN:
        yield from translation.items("message", message, partial(_said, agent))
    else:
        translation.leave_out(f"message ({role})", message.place, dict(message.fields))


def _said(agent: str, message: Exported) -> Iterator[Found[Item]]:
    role = SPOKEN[message.first("role", "message_type")]
    said_at, text = message.first("created_at", "date"), _text(message)
    if not text:
        return
    own_name = agent if role == "assistant" else ""
    segment = Segment(
        id=stable_id("letta", agent, role, said_at, text),
        text=text,
        speaker=message.string("name") or own_name or role,
        session=agent,
        event_time=message.time("created_at") or message.time("date"),
    )
    yield message.found(segment, agent)


def _text(message: Exported) -> str:
    """The text of a message; empty if it is an event, which is left out."""
    written, reply = _written(message), _reply(message)
    if reply:
        message.leave_out("content", written)
        return reply
    packed = _object(written)
    if "type" not in packed:
        return written
    if packed["type"] == "user_message":
        return str(packed.get("message") or "")
    message.leave_out("content", written)
    return ""


def _written(message: Exported) -> str:
    """The text of the content; parts of other kinds are left out."""
    content = message.fields.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError(f"'content' must be a string or a list of parts, got {content!r}")
    texts = [part["text"] for part in content if _is_text(part)]
    for part in content:
        if not _is_text(part):
            message.leave_out("content", part)
    return "\n".join(texts)


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _reply(message: Exported) -> str:
    """The statement of an agent by a tool; calls of other tools are left out."""
    calls = message.fields.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and function.get("name") == SEND_MESSAGE:
            return str(_object(function.get("arguments")).get("message") or "")
        message.leave_out("tool_calls", call)
    return ""


def _object(text: object) -> Mapping[str, object]:
    """The JSON object in a string; empty if there is none."""
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
