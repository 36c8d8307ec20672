# /// script
# requires-python = ">=3.11"
# dependencies = ["letta-client==1.12.1"]
# ///
"""Writes `letta.jsonl`: passages and messages as letta-client lists them, as JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from letta_client.types import Passage  # type: ignore[import-not-found]
from letta_client.types.agents import (  # type: ignore[import-not-found]
    AssistantMessage,
    ReasoningMessage,
    UserMessage,
)

RECORDS: list[Any] = [
    Passage(
        id="passage-1",
        text="The boiler was serviced in April.",
        archive_id="archive-1",
        created_at="2026-05-20T09:30:00Z",
        tags=["house"],
        metadata={"source": "letter.pdf"},
        embedding=[0.1, 0.2],
    ),
    UserMessage(
        id="message-1",
        message_type="user_message",
        content="When is the wedding?",
        date="2026-06-01T09:01:00Z",
        name="Nora",
    ),
    ReasoningMessage(
        id="message-2",
        message_type="reasoning_message",
        reasoning="They ask about the wedding.",
        date="2026-06-01T09:02:00Z",
    ),
    AssistantMessage(
        id="message-2",
        message_type="assistant_message",
        content=[{"type": "text", "text": "On the eighth of November."}],
        date="2026-06-01T09:02:00Z",
    ),
]


def main() -> None:
    """Writes the records."""
    text = "".join(f"{each.model_dump_json()}\n" for each in RECORDS)
    Path(__file__).with_name("letta.jsonl").write_text(text, encoding="utf-8")


main()
