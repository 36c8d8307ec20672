"""What callers are told between the end of a replica and the start of the next."""

from __future__ import annotations

import socket
from pathlib import Path

from serving.desk.ray_environment import LOOPBACK, free_ports
from tests.support.haproxy import PORTS, running, write_config
from tests.support.waiting import until
from trivium import Client
from trivium.errors import TriviumError


def test_call_without_replica_is_told_that_it_starts(tmp_path: Path) -> None:
    port = free_ports(PORTS + 1)
    config = tmp_path / "haproxy.cfg"
    # Ray's proxy, with which calls wait.
    with socket.create_server((LOOPBACK, 0)) as proxy:
        fallback = proxy.getsockname()[1]
        write_config(config, port, on_desk=True, replica=port + PORTS, fallback=fallback)
        with running(config, port), Client(f"{LOOPBACK}:{port}", tenant="acme") as memory:
            until(lambda: reason_of_failure(memory) == "STARTING")


def reason_of_failure(memory: Client) -> str:
    try:
        memory.retrieve("Who is there?", timeout=1)
    except TriviumError as error:
        return error.reason
    return ""
