"""Two desks on one machine share no port: Ray would let them, and mix up their calls."""

from __future__ import annotations

import socket
from pathlib import Path

from serving.deployments.ray_environment import (
    CLUSTER_PORTS,
    LOOPBACK,
    QUIET_PORTS,
    desk_environment,
    free_ports,
)


def test_ports_in_use_are_not_chosen() -> None:
    first = free_ports(4)
    with socket.socket() as taken:
        taken.bind((LOOPBACK, first + 1))
        taken.listen()

        assert free_ports(2, among=range(first, first + 4)) == first + 2


def test_every_port_that_ray_would_share_is_the_desks_own(tmp_path: Path) -> None:
    environment = desk_environment(tmp_path)

    ports = [int(value) for name, value in environment.items() if name.endswith("_PORT")]
    assert len(ports) == 8
    assert set(ports) <= set(CLUSTER_PORTS)
    assert set(CLUSTER_PORTS).isdisjoint(QUIET_PORTS)


def test_the_token_is_for_its_owner_alone(tmp_path: Path) -> None:
    token_file = Path(desk_environment(tmp_path)["RAY_AUTH_TOKEN_PATH"])

    assert token_file.stat().st_mode & 0o077 == 0
    assert len(token_file.read_text()) == 64
