"""No file of the desk holds items, and another account meets closed doors."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.fixtures.service import PASSWORD, Service
from tests.support.processes import command_lines, tree_of
from trivium import Client, Fact, Segment

OUTSIDER = 54_321
"""An account that runs nothing; not `nobody`, which runs PostgreSQL for root."""

EXPECTED = {
    *("admin", ".s.PGSQL.5432", "raylet"),  # the sockets of HAProxy, PostgreSQL and Ray
    *("token", "pgdata", "serve", "neo4j.log"),
}


def folders(service: Service) -> list[Path]:
    """What the desk has written for itself: Ray's folder with the one around it, and the data."""
    ray = service.log_dir.parents[1]
    return [ray.parent, ray, *service.data_dir.iterdir()]


def can_reach(path: Path) -> bool:
    """Whether this process can list, connect to or read what a path names."""
    try:
        kind = path.lstat().st_mode
        if stat.S_ISDIR(kind):
            os.listdir(path)
        elif stat.S_ISSOCK(kind):
            with socket.socket(socket.AF_UNIX) as attempt:
                attempt.connect(str(path))
        else:
            path.open("rb").close()
    except OSError:
        return False
    return True


def reached_by_outsider(paths: list[Path]) -> list[str]:
    """The paths that a process of another account reaches."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(OUTSIDER)
        os.setuid(OUTSIDER)
        reached = [str(path) for path in paths if can_reach(path)]
        with os.fdopen(writing, "w") as pipe:
            json.dump(reached, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found: list[str] = json.load(pipe)
    os.waitpid(child, 0)
    return found


def test_another_account_reaches_no_file_or_socket(service: Service) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can act as another account; the next test looks at the modes")
    tops = folders(service)
    paths = [*tops, *(path for top in tops for path in top.rglob("*"))]

    assert {path.name for path in paths} >= EXPECTED, "what is elsewhere is not tried"
    assert reached_by_outsider(paths) == []


def test_the_folders_of_the_desk_are_for_their_owners_alone(service: Service) -> None:
    ray_parent, _, *data = folders(service)

    assert [path.name for path in (ray_parent, *data) if path.stat().st_mode & 0o077] == []


@pytest.mark.placement
def test_no_command_line_shows_a_secret(service: Service) -> None:
    lines = command_lines(service.process.pid)

    assert lines
    assert not [line for line in lines if service.token in line or PASSWORD in line]


def core_limits(process: psutil.Process) -> list[str]:
    """The soft and the hard limit of a process for core dumps, in bytes."""
    [line] = re.findall(
        r"^Max core file size +(\S+) +(\S+)",
        Path(f"/proc/{process.pid}/limits").read_text(),
        flags=re.M,
    )
    return list(line)


def test_no_process_of_the_desk_writes_a_core_dump(service: Service) -> None:
    limits = []
    for process in tree_of(service.process.pid):
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            limits.append((process.name(), core_limits(process)))

    assert {"postgres", "haproxy", "raylet"} <= {name for name, _ in limits}
    assert [each for each in limits if not {*each[1]} <= {"0", "1"}] == []


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
