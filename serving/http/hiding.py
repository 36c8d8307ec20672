"""Leaves sensitive texts out of an answer, for callers that show it to whoever looks."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from trivium.v1.fact_pb2 import Fact
from trivium.v1.retrieval_service_pb2 import RetrieveResponse
from trivium.v1.segment_pb2 import Segment

SHOWN_OF_SEGMENTS = {"id", "kind", "session", "event_time", "created_at", "updated_at", "sensitive"}
SHOWN_OF_FACTS = {"id", "valid_from", "valid_to", "recorded_at", "sensitive"}


def hide_sensitive(message: Message) -> bool:
    """Clears what sensitive items say, and each block that quotes one of them.

    Returns:
        Whether there was something to hide.
    """
    if isinstance(message, Segment | Fact):
        shown = SHOWN_OF_SEGMENTS if isinstance(message, Segment) else SHOWN_OF_FACTS
        return message.sensitive and _keep(message, shown)
    hidden = [hide_sensitive(each) for each in _inner(message)]
    if isinstance(message, RetrieveResponse) and any(hidden):
        message.briefing = ""
    return any(hidden)


def _keep(message: Message, shown: set[str]) -> bool:
    for field, _ in message.ListFields():
        if field.name not in shown:
            message.ClearField(field.name)
    return True


def _inner(message: Message) -> list[Any]:
    """The messages in a message; maps have none here."""
    found: list[Any] = []
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        found += value if field.is_repeated else [value]
    return found
