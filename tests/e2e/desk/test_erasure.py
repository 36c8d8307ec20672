"""No file of the desk holds items, apart from those of the stores."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.service import Service
from trivium import Client, Fact, Segment

STORES = {"postgres", "neo4j"}
"""Their own files keep removed rows until they reuse the space: docs/erasure.md."""


def files_of(service: Service) -> Iterator[Path]:
    """The files of the data folder and of the temporary one, which has Ray's session and logs.

    Of the stores in the data folder their logs alone.
    """
    temporary = Path(service.process.environ()["TMPDIR"])
    for root in (service.data_dir, temporary):
        # Unlike `rglob`, it passes over a folder that is deleted meanwhile.
        found = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
        for path in found:
            of_store = root == service.data_dir and path.relative_to(root).parts[0] in STORES
            if path.is_file() and (not of_store or path.suffix == ".log"):
                yield path


def files_with(text: str, service: Service) -> list[str]:
    found = []
    for path in files_of(service):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue  # deleted meanwhile
        if text.encode() in content:
            found.append(str(path))
    return found


@pytest.fixture
def mark() -> str:
    return f"sentinel{uuid.uuid4().hex}"


def marked(mark: str) -> tuple[Segment, Fact]:
    """A segment, and a fact that rests on it, with the mark in every field."""
    said = Segment(
        id=f"id-{mark}",
        text=f"text {mark}",
        title=f"title {mark}",
        speaker=f"Speaker{mark}",
        session=f"session-{mark}",
        labels={f"label-{mark}": mark},
        entities=(f"Entity{mark}",),
    )
    known = Fact(
        id=f"fact-{mark}",
        subject=f"Subject{mark}",
        relation=mark,
        object=f"Object{mark}",
        evidence=(said.id,),
    )
    return said, known


@pytest.fixture
def memory(service: Service, mark: str) -> Iterator[Client]:
    with service.client(tenant=f"erasing-{uuid.uuid4().hex}") as memory:
        memory.ingest([Segment(id="other", text="The boat is blue.")])
        token = memory.ingest(marked(mark)).consistency_token
        memory.retrieve(f"What about {mark}?", consistency_token=token)
        yield memory
        memory.forget(everything=True)


@pytest.mark.placement
def test_files_hold_no_item_before_or_after_erasure(
    service: Service, memory: Client, mark: str
) -> None:
    assert files_with(mark, service) == []

    receipt = memory.forget(segment_ids=[f"id-{mark}"])

    assert receipt.verified, receipt
    removed = {each.store: each.removed_count for each in receipt.receipts}
    assert (removed["postgres"], removed["embeddings"]) == (2, 2)
    memory.retrieve(f"What about {mark}?", consistency_token=receipt.consistency_token)
    assert [hit.id for hit in memory.retrieve("boat").hits] == ["other"]
    assert files_with(mark, service) == []
