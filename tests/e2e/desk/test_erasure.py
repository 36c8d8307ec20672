"""No file of the desk holds what was erased or is sensitive, apart from those of the stores."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.service import Service
from tests.support.waiting import until
from trivium import Client, Fact, Segment

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.ray, pytest.mark.model]

STORES = {"postgres", "neo4j"}
"""Their own files keep removed rows until they reuse the space: docs/guarantees.md."""


def files_of(service: Service) -> Iterator[Path]:
    """The files of the data folder and of the temporary one, which has Ray's session and logs.

    Of the stores in the data folder their logs alone.
    """
    temporary = Path(service.process.environ()["TMPDIR"])
    for root in (service.data_dir, temporary):
        # Unlike `rglob`, it passes over a folder that is deleted meanwhile, as snapshots are.
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
            continue  # a snapshot that was replaced meanwhile
        if text.encode() in content:
            found.append(str(path))
    return found


@pytest.fixture
def mark() -> str:
    return f"sentinel{uuid.uuid4().hex}"


def marked(mark: str, *, sensitive: bool = False) -> tuple[Segment, Fact]:
    """A segment, and a fact that rests on it, with the mark in every field."""
    said = Segment(
        id=f"id-{mark}",
        text=f"text {mark}",
        title=f"title {mark}",
        speaker=f"Speaker{mark}",
        session=f"session-{mark}",
        labels={f"label-{mark}": mark},
        entities=(f"Entity{mark}",),
        sensitive=sensitive,
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
    """A tenant with the marked items in all projections and in a file."""
    with service.client(tenant=f"erasing-{uuid.uuid4().hex}") as memory:
        memory.ingest([Segment(id="other", text="The boat is blue.")])
        token = memory.ingest(marked(mark)).consistency_token
        memory.retrieve(f"What about {mark}?", consistency_token=token)
        until(lambda: files_with(mark, service) != [])
        yield memory
        memory.forget(everything=True)


@pytest.mark.placement
def test_no_file_holds_what_was_erased(service: Service, memory: Client, mark: str) -> None:
    found_before = files_with(mark, service)
    assert all(str(service.snapshots) in path for path in found_before), found_before

    receipt = memory.forget(segment_ids=[f"id-{mark}"])

    assert receipt.verified, receipt
    removed = {each.store: each.removed_count for each in receipt.receipts}
    assert (removed["postgres"], removed["embeddings"]) == (2, 2)
    assert files_with(mark, service) == []
    memory.retrieve(f"What about {mark}?", consistency_token=receipt.consistency_token)
    assert [hit.id for hit in memory.retrieve("boat").hits] == ["other"]
    # Snapshots that are written from now on hold nothing of it either.
    before = set(service.snapshots.glob("*/*/manifest.json"))
    token = memory.ingest([Segment(id="new", text="The sea is grey.")]).consistency_token
    memory.retrieve("sea", consistency_token=token)
    until(lambda: set(service.snapshots.glob("*/*/manifest.json")) - before != set())
    assert files_with(mark, service) == []


def test_no_file_holds_what_became_sensitive(service: Service, memory: Client, mark: str) -> None:
    hidden = Segment(id=f"id-{mark}", text=f"text {mark}", sensitive=True)

    token = memory.ingest([hidden]).consistency_token

    answer = memory.retrieve(f"What about {mark}?", consistency_token=token)
    assert [{*hit.legs} - {"lexical", "temporal"} for hit in answer.hits] == [set()]
    until(lambda: files_with(mark, service) == [])


def test_no_file_holds_what_was_always_sensitive(service: Service, mark: str) -> None:
    with service.client(tenant=f"hiding-{uuid.uuid4().hex}") as memory:
        other = Segment(id="other", text="The boat is blue.")
        before = set(service.snapshots.glob("*/*/manifest.json"))
        token = memory.ingest([*marked(mark, sensitive=True), other]).consistency_token

        answer = memory.retrieve(f"What about {mark}?", consistency_token=token)

        assert f"id-{mark}" in {hit.id for hit in answer.hits}
        until(lambda: set(service.snapshots.glob("*/*/manifest.json")) - before != set())
        assert files_with(mark, service) == []
        memory.forget(everything=True)
