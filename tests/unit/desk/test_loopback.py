"""What the desk changes in Ray. Each test runs in a process of its own, since it changes Ray."""

from __future__ import annotations

import base64
import re
import subprocess
import sys

from google.rpc import status_pb2

from serving.domain.errors import StartingError
from serving.rpc.status import to_status

TEMPLATE = """
from serving.desk.loopback import bind_to_loopback
bind_to_loopback()
from ray.serve._private import haproxy_templates
print(haproxy_templates.HAPROXY_CONFIG_TEMPLATE)
"""


def test_haproxys_admin_socket_is_for_its_owner_alone() -> None:
    template = subprocess.check_output([sys.executable, "-c", TEMPLATE], text=True)

    sockets = [line.split() for line in template.splitlines() if "stats socket" in line]
    assert [line[line.index("mode") + 1] for line in sockets] == ["600"]


def test_haproxy_without_application_answers_that_it_starts() -> None:
    template = subprocess.check_output([sys.executable, "-c", TEMPLATE], text=True)

    [answer] = [
        line for line in template.splitlines() if 'grpc-status 14 hdr grpc-message "the' in line
    ]
    [details] = re.findall(r'grpc-status-details-bin "(\S+)"', answer)
    status = status_pb2.Status.FromString(base64.b64decode(details + "=" * (-len(details) % 4)))
    assert status == to_status(StartingError())
    assert "Application metadata not set" not in template


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
