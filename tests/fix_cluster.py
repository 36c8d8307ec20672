"""A Ray cluster of one node, started as an operator starts it, with our wheel installed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import neo4j
import psutil
import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo

from serving.deployments.ray_environment import (
    LATENCY_ENVIRONMENT,
    LOOPBACK,
    desk_environment,
    free_ports,
)
from tests.processes import is_alive, listeners, tree_of
from tests.waiting import until
from trivium import Client

PROJECT = Path(__file__).parents[1]
DEPLOY = PROJECT / "deploy"
START_TIMEOUT_S = 60.0
DEPLOY_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 60.0
RAY_PORTS = 5
SERVE_PORTS = 2
START_LOG = "ray-start.log"

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that runs, and what an operator does with it."""

    python: Path
    environment: Mapping[str, str]
    folder: Path
    process: psutil.Process
    dashboard: str
    metrics: str
    http_port: int
    grpc_port: int

    def client(self, tenant: str) -> Client:
        return Client(f"{LOOPBACK}:{self.grpc_port}", tenant=tenant, timeout=30)

    def deploy(self, placement: str, **settings: Mapping[str, Any]) -> None:
        """Runs `serve deploy` with a copy of the shipped file, and waits until all of it runs.

        Args:
            placement: Whose file.
            settings: Sections of the settings to add to it.
        """
        name = f"serve.{placement}.yaml"
        config = yaml.safe_load((DEPLOY / name).read_text())
        # It says all interfaces and the usual ports, which on a machine that others use would be
        # open to them, or taken.
        config["http_options"].update(host=LOOPBACK, port=self.http_port)
        config["grpc_options"].update(port=self.grpc_port)
        arguments = config["applications"][0]["args"]
        arguments.update(settings)
        (self.folder / name).write_text(yaml.safe_dump(config))
        command = [str(self.python), "-m", "ray.serve.scripts", "deploy"]
        run([*command, "--address", self.dashboard, str(self.folder / name)], self.environment)
        until(lambda: self._runs(arguments), DEPLOY_TIMEOUT_S)

    def _runs(self, arguments: Mapping[str, Any]) -> bool:
        application = self.application()
        assert application["status"] != "DEPLOY_FAILED", messages(application)
        deployed = application["deployed_app_config"]["args"]
        return bool(application["status"] == "RUNNING" and deployed == arguments)

    def application(self) -> Any:
        """What is deployed, and how it is."""
        return self.serving()["applications"]["trivium"]

    def serving(self) -> Any:
        """What Ray's REST API says of Serve, as `serve status` asks for it."""
        token = Path(self.environment["RAY_AUTH_TOKEN_PATH"]).read_text()
        request = Request(
            f"{self.dashboard}/api/serve/applications/",
            headers={"Authorization": f"Bearer {token}"},
        )
        with urlopen(request, timeout=30) as response:
            return json.loads(response.read())

    def answers(self) -> bool:
        assert is_alive(self.process), (self.folder / START_LOG).read_text()
        with contextlib.suppress(URLError, OSError):
            self.serving()
            return True
        return False

    def listening(self) -> set[str]:
        """The addresses that any of its processes listens on."""
        return {
            address.ip for process in tree_of(self.process.pid) for _, address in listeners(process)
        }

    def log_of(self, deployment: str) -> list[str]:
        """The messages that the replicas of a deployment have logged."""
        logs = (self.folder / "session_latest/logs/serve").glob(f"replica_*{deployment}*.log")
        lines = [line for log in logs for line in log.read_text().splitlines()]
        return [str(json.loads(line).get("message")) for line in lines]


def messages(application: Mapping[str, Any]) -> list[str]:
    """What Serve has to say of an application and its deployments."""
    return [each["message"] for each in (application, *application["deployments"].values())]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--wheel", "--no-build-isolation", "--python", sys.executable]
    uv("build", *options, "--out-dir", folder, PROJECT)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def wheel_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds our wheel, and sees the packages of this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(folder)}))
    # A folder named in a .pth file is searched, but the .pth files in it are not read: our own
    # packages, which are installed here by such a file, are not seen.
    shared = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (packages / "shared.pth").write_text("\n".join(shared))
    python = folder / "bin" / "python"
    uv("pip", "install", "--no-deps", "--python", python, wheel)
    return python


def uv(*arguments: str | Path) -> None:
    run([Path(sys.executable).with_name("uv"), *arguments, "--offline", "--no-cache"], inherited())


def run(command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
    """Runs a command, which has to succeed."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def empty_stores(postgres_server: str, neo4j_uri: str) -> Iterator[dict[str, str]]:
    """The variables that name stores with nothing in them, not even the schema."""
    name = f"cluster_{next(_numbers)}"
    empty_graph(neo4j_uri)
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield {
            "TRIVIUM_POSTGRES__DSN": make_conninfo(postgres_server, dbname=name),
            "TRIVIUM_NEO4J__URI": neo4j_uri,
        }
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    empty_graph(neo4j_uri)


def empty_graph(uri: str) -> None:
    with neo4j.GraphDatabase.driver(uri) as driver:
        driver.execute_query("MATCH (node) DETACH DELETE node")


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, wheel_python: Path, empty_stores: dict[str, str]
) -> Iterator[Cluster]:
    """A cluster whose node has what `deploy/ray.env` says, if the test asks for "with ray.env"."""
    prefix = in_environment(DEPLOY / "ray.env") if request.param == "with ray.env" else []
    with started_cluster(wheel_python, empty_stores, prefix) as running:
        yield running


@contextlib.contextmanager
def started_cluster(
    python: Path, stores: Mapping[str, str], prefix: list[str]
) -> Iterator[Cluster]:
    """Runs `ray start --head --block` until the end of the block; nothing of it may stay."""
    with tempfile.TemporaryDirectory(prefix="trv-", ignore_cleanup_errors=True) as temp_dir:
        folder = Path(temp_dir)
        environment = {**inherited(), **alone_on_its_machine(folder), **stores}
        first = free_ports(RAY_PORTS + SERVE_PORTS)
        command = [str(python), "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        with (folder / START_LOG).open("w") as log:
            process = subprocess.Popen(
                [*prefix, *command, *start_options(folder, first)],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        cluster = Cluster(
            python=python,
            environment=environment,
            folder=folder,
            process=psutil.Process(process.pid),
            dashboard=f"http://{LOOPBACK}:{first}",
            metrics=f"http://{LOOPBACK}:{first + 4}/metrics",
            http_port=first + RAY_PORTS,
            grpc_port=first + RAY_PORTS + 1,
        )
        try:
            until(cluster.answers, START_TIMEOUT_S)
            yield cluster
        finally:
            left = stopped(process)
        assert not left, f"left behind: {left}"


def in_environment(file: Path) -> list[str]:
    """What to put before a command so that it runs as `deploy/ray.env` says to."""
    return ["sh", "-c", 'set -a; . "$0"; set +a; exec "$@"', str(file)]


def inherited() -> dict[str, str]:
    """This process' environment without what would change the cluster or its imports."""
    unwanted = ("RAY_", "TRIVIUM_", "PYTHON", "VIRTUAL_ENV")
    everything = os.environ  # noqa: TID251 - a child process inherits it
    return {name: value for name, value in everything.items() if not name.startswith(unwanted)}


def alone_on_its_machine(folder: Path) -> dict[str, str]:
    """What keeps a cluster apart from others on its machine, and away from the network.

    That is what a desk has, without what is also in `deploy/ray.env`: these tests show what
    comes of that file. Ray's own name for a job's `worker_process_setup_hook` is used, since
    `serve deploy` has no option for one.
    """
    desk = desk_environment(folder)
    apart = {name: value for name, value in desk.items() if name not in LATENCY_ENVIRONMENT}
    hook = "serving.deployments.loopback.bind_to_loopback"
    return {
        **apart,
        "__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR": hook,
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # there is no node to drain to
    }


def start_options(folder: Path, first_port: int) -> list[str]:
    """Loopback, ports that nobody else has, and no more memory than is needed."""
    options = {
        "temp-dir": folder,
        "node-ip-address": LOOPBACK,
        "dashboard-host": LOOPBACK,
        "dashboard-port": first_port,
        "port": first_port + 1,
        "dashboard-agent-listen-port": first_port + 2,
        "ray-client-server-port": first_port + 3,
        "metrics-export-port": first_port + 4,
        "min-worker-port": 0,
        "max-worker-port": 0,
        "object-store-memory": 80_000_000,
    }
    return [f"--{name}={value}" for name, value in options.items()]


def stopped(process: subprocess.Popen[bytes]) -> list[str]:
    """Ends a cluster as `kill` does; returns what had to be ended by force."""
    tree = tree_of(process.pid)
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_S)
    with contextlib.suppress(AssertionError):
        until(lambda: not any(map(is_alive, tree)), STOP_TIMEOUT_S)
    left = {each: each.name() for each in tree if is_alive(each)}
    for each in left:
        each.kill()
    return list(left.values())
