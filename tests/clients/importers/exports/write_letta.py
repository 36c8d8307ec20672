# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["letta[postgres]==0.16.8"]
# ///
"""Writes `letta.af`, an agent file of Letta's own schema."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from letta.schemas.agent_file import (  # type: ignore[import-not-found]
    AgentFileSchema,
    AgentSchema,
    BlockSchema,
    MessageSchema,
    ToolSchema,
)
from letta.system import package_user_message  # type: ignore[import-not-found]

AT = datetime(2026, 6, 1, 9, tzinfo=UTC)


def message(number: int, role: str, text: str, **fields: Any) -> MessageSchema:
    """A message of the agent."""
    content = [{"type": "text", "text": text}]
    given = {"id": f"message-{number}", "role": role, "content": content, "agent_id": "agent-0"}
    made = MessageSchema(**given, created_at=AT.replace(minute=number), **fields)
    made.otid = f"otid-{number}"
    return made


def called(name: str, **arguments: Any) -> dict[str, Any]:
    """A call of a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call-{name}", "type": "function", "function": function}


def main() -> None:
    """Writes the file as the export of the server does."""
    messages = [
        message(0, "system", "You are a concierge."),
        message(1, "user", package_user_message("When is the wedding?", "UTC")),
        message(2, "user", json.dumps({"type": "heartbeat", "reason": "timer", "time": "9:02"})),
        message(
            3,
            "assistant",
            "They ask about the wedding.",
            tool_calls=[called("send_message", message="On the eighth of November.")],
        ),
        message(4, "tool", '{"status": "OK"}', tool_call_id="call-send_message"),
        message(5, "user", "Thank you.", name="Nora"),
        message(6, "assistant", "You are welcome."),
    ]
    # The time at which the message was packed is that of this run.
    packed = json.loads(messages[1].content[0].text)
    messages[1].content[0].text = json.dumps({**packed, "time": "2026-06-01 09:01:00 AM UTC+0000"})
    file = AgentFileSchema(
        agents=[
            AgentSchema(
                id="agent-0",
                name="Concierge",
                system="You are a concierge.",
                block_ids=["block-0", "block-1"],
                tool_ids=["tool-0"],
                messages=messages,
                in_context_message_ids=[each.id for each in messages],
            )
        ],
        groups=[],
        blocks=[
            BlockSchema(id="block-0", label="human", value="Nora. Lives in Lisbon.", limit=5000),
            BlockSchema(id="block-1", label="persona", value=""),
        ],
        files=[],
        sources=[],
        tools=[ToolSchema(id="tool-0", name="send_message", tool_type="letta_core")],
        mcp_servers=[],
        metadata={"revision_id": "a1b2c3"},
        created_at=AT,
    )
    text = json.dumps(file.model_dump(mode="json"), indent=2, ensure_ascii=False)
    Path(__file__).with_name("letta.af").write_text(text + "\n", encoding="utf-8")


main()
