from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.importers.importing import imported, written


def test_the_key_of_the_text_can_be_named(tmp_path: Path) -> None:
    points = written(tmp_path, {"id": 1, "payload": {"text": "short", "body": "long"}})

    found = imported("qdrant", points, text_key="body")

    segment = found.segment("1")
    assert (segment.text, segment.labels) == ("long", {"text": "short"})


def test_api_response_is_unwrapped_and_next_page_reported(tmp_path: Path) -> None:
    point = {"id": 1, "payload": {"text": "We sailed."}}
    response = {"result": {"points": [point, "no point"], "next_page_offset": 2}, "status": "ok"}

    found = imported("qdrant", written(tmp_path, response))

    assert found.segment("1").text == "We sailed."
    assert found.unmapped == {"page.next_page_offset": 1}
    assert found.problems == ["export.jsonl:1: points[1]: is not a JSON object"]


@pytest.mark.parametrize("time", [1779269400, "yesterday"])
def test_invalid_time_is_reported(tmp_path: Path, time: object) -> None:
    point = {"id": 1, "payload": {"text": "We sailed.", "timestamp": time}}

    found = imported("qdrant", written(tmp_path, point))

    assert found.segment("1").event_time is None
    assert found.unmapped == {"point.payload.timestamp": 1}


@pytest.mark.parametrize("id_", [None, True, [1]])
def test_point_without_an_id_is_named(tmp_path: Path, id_: object) -> None:
    found = imported("qdrant", written(tmp_path, {"id": id_, "payload": {"text": "We sailed."}}))

    assert found.problems == [f"export.jsonl:1: 'id' must be a number or a string, got {id_!r}"]
