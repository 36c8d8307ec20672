from __future__ import annotations

import json
from pathlib import Path

from tests.clients.importers.importing import EXPORTS, imported, written
from trivium import Segment


def test_ids_come_from_text_not_from_numbers(tmp_path: Path) -> None:
    file = json.loads((EXPORTS / "letta.af").read_text())
    for number, message in enumerate(file["agents"][0]["messages"]):
        message["id"] = f"message-{number + 100}"
    for old, new in (("block-0", "block-7"), ("block-1", "block-8")):
        text = json.dumps(file).replace(old, new)
        file = json.loads(text)

    again = imported("letta", written(tmp_path, text, name="again.af"))

    assert again.items == imported("letta", EXPORTS / "letta.af").items


def test_two_agents_share_no_ids(tmp_path: Path) -> None:
    text = (EXPORTS / "letta.af").read_text()
    other = written(tmp_path, text.replace('"Concierge"', '"Butler"'), name="other.af")

    ids = [each.id for each in imported("letta", EXPORTS / "letta.af", other).items]

    assert len(set(ids)) == len(ids) == 10


def test_deleted_passage_is_left_out(tmp_path: Path) -> None:
    passage = {"id": "p1", "text": "Gone.", "is_deleted": True}

    found = imported("letta", written(tmp_path, passage))

    assert found.items == []
    assert found.unmapped["passage.is_deleted"] == 1


def test_message_without_readable_content_is_named(tmp_path: Path) -> None:
    message = {"message_type": "user_message", "id": "m1", "content": 7}

    found = imported("letta", written(tmp_path, message))

    (problem,) = found.problems
    assert problem == "export.jsonl:1: 'content' must be a string or a list of parts, got 7"


def test_part_that_is_no_text_is_reported(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "Look."}, {"type": "image", "source": {}}]
    message = {"message_type": "user_message", "id": "m1", "content": parts}

    found = imported("letta", written(tmp_path, message))

    assert [each.text for each in found.items if isinstance(each, Segment)] == ["Look."]
    assert found.unmapped["message.content"] == 1


def test_agent_file_of_the_legacy_format_is_named(tmp_path: Path) -> None:
    found = imported("letta", written(tmp_path, {"name": "Concierge", "messages": []}))

    assert found.problems == [
        "export.jsonl:1: is an agent file of the legacy format; "
        "export it with use_legacy_format=False"
    ]
