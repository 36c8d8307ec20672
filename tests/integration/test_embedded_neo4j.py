"""The embedded Neo4j process: start, end, and failures."""

from __future__ import annotations

from pathlib import Path

import neo4j
import psutil
import pytest

from serving.desk.embedded_neo4j import EmbeddedNeo4j, running_address
from serving.desk.embedded_neo4j.watch import error_of_transaction
from serving.domain.errors import DependencyError
from tests.support.disk import Disk
from tests.support.processes import python_child
from tests.support.waiting import until

pytestmark = [pytest.mark.neo4j, pytest.mark.timeout(240)]

PARENT = """
import sys
from pathlib import Path
from serving.desk.embedded_neo4j import EmbeddedNeo4j

server = EmbeddedNeo4j(Path(sys.argv[1]), Path(sys.argv[2]), heap_mb=256)
address = server.start()
print(server.pid, address, flush=True)
sys.stdin.read()
"""


def write_and_count(uri: str) -> int:
    with neo4j.GraphDatabase.driver(uri) as driver:
        driver.execute_query("CREATE (:Mark)")
        records, _, _ = driver.execute_query("MATCH (mark:Mark) RETURN count(mark)")
        return int(records[0][0])


def listening(process: psutil.Process) -> list[tuple[str, int]]:
    return [
        (address.laddr.ip, address.laddr.port)
        for address in process.net_connections("tcp")
        if address.status == psutil.CONN_LISTEN
    ]


def test_nodes_outlive_a_server_with_killed_starter(tmp_path: Path, jar_cache: Path) -> None:
    root = tmp_path / "neo4j"
    with python_child(PARENT, root, jar_cache) as (_, printed):
        pid, first = printed.split()
        process = psutil.Process(int(pid))
        assert write_and_count(first) == 1
        port = int(first.rsplit(":", 1)[1])
        # Java writes an IPv4 address as one mapped into IPv6.
        assert [(ip.removeprefix("::ffff:"), on) for ip, on in listening(process)] == [
            ("127.0.0.1", port)
        ]
        assert running_address(root) == first
        assert error_of_transaction(first) == ""
    gone, _ = psutil.wait_procs([process], timeout=60)
    assert gone == [process]

    with EmbeddedNeo4j(root, jar_cache, heap_mb=256) as again:
        assert write_and_count(again) == 2
    assert running_address(root) is None


@pytest.mark.parametrize("unusable", ["root", "cache"])
def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path, jar_cache: Path, unusable: str
) -> None:
    (tmp_path / "file").touch()
    folders = {"root": tmp_path / "neo4j", "cache": jar_cache} | {unusable: tmp_path / "file" / "x"}
    server = EmbeddedNeo4j(folders["root"], folders["cache"])

    with pytest.raises(DependencyError, match="Not a directory") as raised:
        server.start()

    assert str(folders[unusable]) in str(raised.value)
    assert server.pid is None


@pytest.mark.release
def test_neo4j_recovers_after_a_full_disk(short_directory: Path, jar_cache: Path) -> None:
    said: list[str] = []
    disk = Disk(short_directory / "full")
    disk.mount()
    server = EmbeddedNeo4j(disk.root / "neo4j", jar_cache, heap_mb=256, on_progress=said.append)
    try:
        with server as address:
            assert write_and_count(address) == 1
            disk.fill()
            with pytest.raises(neo4j.exceptions.DatabaseError):
                fill_transaction_log(address)
            disk.free()
            assert "TransactionStartFailed" in error_of_transaction(address), "or it heals itself"
            first = server.pid

            def is_started_again() -> bool:
                server.restart_if_dead()
                return server.pid != first

            until(is_started_again, 120)

            assert write_and_count(address) == 2
        assert any("is the disk full?" in line for line in said)
    finally:
        disk.unmount()


def fill_transaction_log(uri: str) -> None:
    with neo4j.GraphDatabase.driver(uri) as driver:
        for _ in range(100):
            driver.execute_query("CREATE (:Ballast {bytes: $bytes})", bytes="x" * 1_000_000)
