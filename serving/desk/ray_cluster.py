"""A Ray cluster on loopback, in one process tree, that ends with the process that started it.

Ray reads its environment at import: `ray_environment.desk_environment` must be set before this
module is imported.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import psutil
import ray
import ray._private.parameter
import ray._private.services
import ray._private.utils
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ApplicationStatusOverview, ServeDeploySchema

from serving.desk.leftovers import end_all, left_by_ray
from serving.desk.ray_environment import (
    AGENT_PORTS,
    LOOPBACK,
    START_TIMEOUT_S,
    TOKEN_FILE,
    DeskAddresses,
    DeskEndedError,
    DeskStartError,
)

logger = logging.getLogger(__name__)

LOGICAL_CPUS = 16
"""The CPUs that Ray assigns to replicas, a tenth each; not the cores of the machine."""
OBJECT_STORE_BYTES = 80_000_000
"""The minimum of Ray: the service does not use the object store."""
REPORT_EVERY_S = 10.0
POLL_S = 0.1

ESSENTIAL = ("raylet", "gcs_server")
"""Ray's processes without which replicas end; the others are for the dashboard and for logs."""

RayProcess: TypeAlias = "tuple[str, subprocess.Popen[bytes]]"
"""An essential process of Ray, with its name."""


class DeskRay:
    """Starts Ray and Serve in this process, deploys one application, and stops both.

    `check` is called between steps and while waiting; an exception from it ends the start.
    """

    def __init__(self, ports: Mapping[str, int], temp_dir: Path, check: Callable[[], None]) -> None:
        self._ports = ports
        self._temp_dir = temp_dir
        self._check = check
        self._serves = False
        self._started: list[subprocess.Popen[bytes]] = []
        self._agents: list[psutil.Process] = []

    def start(self) -> DeskAddresses:
        """Starts Ray with the dashboard; takes 7-10 s, on a busy machine up to minutes.

        Raises:
            DeskStartError: A process of Ray has ended.
        """
        ports = self._ports
        with self._as_part_of_the_desk():
            context = ray.init(
                num_cpus=LOGICAL_CPUS,
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=True,
                dashboard_host=LOOPBACK,
                dashboard_port=ports["dashboard_port"],
                _node_ip_address=LOOPBACK,
                _metrics_export_port=ports["metrics_port"],
                _temp_dir=str(self._temp_dir),
                runtime_env={"worker_process_setup_hook": "serving.desk.loopback.bind_to_loopback"},
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        [raylet] = [process for name, process in self._essential if name == "raylet"]
        # Before there are workers: its agents, which hide their environment from `left_by_ray`.
        self._agents = psutil.Process(raylet.pid).children()
        self._check()
        return DeskAddresses(
            grpc=f"{LOOPBACK}:{ports['grpc_port']}",
            http=f"http://{LOOPBACK}:{ports['http_port']}",
            dashboard=f"http://{context.dashboard_url}",
            metrics=f"http://{LOOPBACK}:{ports['metrics_port']}/metrics",
            token_file=self._temp_dir / TOKEN_FILE,
        )

    @contextlib.contextmanager
    def _as_part_of_the_desk(self) -> Iterator[None]:
        """Has Ray start its processes as the desk needs them.

        Ray would handle SIGTERM by ending this process without stopping the stores. Ctrl-C is sent
        to the whole process group: it kills Ray's dashboard, and a start then waits a minute for
        it. The ports of the agents are no arguments of `ray.init`; nor is how long the node takes
        to register, which is 30 s in Ray.
        """
        utils: Any = ray._private.utils
        services: Any = ray._private.services
        parameter: Any = ray._private.parameter
        agent_ports = {name: self._ports[name] for name in AGENT_PORTS}
        ours = [
            (utils, "set_sigterm_handler", lambda _handler: None),
            (services, "ConsolePopen", partial(self._spawn, services.ConsolePopen)),
            (services, "get_node", partial(self._registered, services.get_node)),
            (parameter, "RayParams", partial(parameter.RayParams, **agent_ports)),
        ]
        theirs = [(module, name, getattr(module, name)) for module, name, _ in ours]
        for module, name, value in ours:
            setattr(module, name, value)
        try:
            yield
        finally:
            for module, name, value in theirs:
                setattr(module, name, value)
            # The core worker has installed a C handler that aborts; replace it.
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))

    def _spawn(self, popen: Any, command: Sequence[str], **named: Any) -> Any:
        if Path(command[0]).name == "raylet":  # which Ray does not tell
            port = self._ports["dashboard_agent_listen_port"]
            command = [*command, f"--dashboard_agent_listen_port={port}"]
        process = popen(command, **named, process_group=0)
        self._started.append(process)
        return process

    def _registered(self, get_node: Callable[..., Any], gcs_address: str, node_id: str) -> Any:
        def check() -> None:
            self._check()
            require_started(self._essential, self.log_dir)

        return wait_for_node(partial(get_node, gcs_address, node_id), check)

    @property
    def _essential(self) -> list[RayProcess]:
        named = [(Path(each.args[0]).name, each) for each in self._started]  # type: ignore[arg-type, index]
        return [(name, process) for name, process in named if name in ESSENTIAL]

    def deploy(self, config: Mapping[str, Any], report: Callable[[str], None]) -> None:
        """Deploys a Serve config, as `serve deploy` does, and waits until it is running.

        What is not running yet is reported in intervals.

        Raises:
            DeskStartError: It failed, or took longer than `START_TIMEOUT_S`.
        """
        schema = ServeDeploySchema.model_validate(config)
        schema.http_options.host = LOOPBACK
        schema.http_options.port = self._ports["http_port"]
        schema.grpc_options.port = self._ports["grpc_port"]
        self._serves = True
        serve.start(
            proxy_location=schema.proxy_location,
            http_options=schema.http_options.model_dump(),
            grpc_options=schema.grpc_options.model_dump(),
            logging_config=schema.logging_config,
        )
        client = _get_global_client()
        assert client is not None, "Serve was started just above; this is a bug"
        self._check()
        client.deploy_apps(schema)
        self._wait_until_running(schema.applications[0].name, report)

    def _wait_until_running(self, name: str, report: Callable[[str], None]) -> None:
        started = time.monotonic()
        report_at = started + REPORT_EVERY_S
        while time.monotonic() < started + START_TIMEOUT_S:
            application = serve.status().applications.get(name)
            if application is not None and application.status == "RUNNING":
                return
            if application is not None and application.status in ("DEPLOY_FAILED", "UNHEALTHY"):
                raise DeskStartError(_last_lines(application))
            if (now := time.monotonic()) >= report_at:
                report(f"deploying for {now - started:.0f} s; {waits_for(application)}")
                report_at += REPORT_EVERY_S
            self._check()
            self.require_alive()
            time.sleep(POLL_S)
        raise DeskStartError(f"the service was not running after {START_TIMEOUT_S:.0f} s")

    @property
    def log_dir(self) -> Path:
        """The log folder of Ray and Serve."""
        return self._temp_dir / "session_latest" / "logs"

    def require_alive(self) -> None:
        """Raises `DeskEndedError` if Ray has lost a process that it cannot do without."""
        require_essential(self._essential)

    def stop(self) -> None:
        """Stops everything that was started, also after an incomplete start or without a raylet."""
        # Ray prints a message for each actor that is killed.
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                if self._serves and not ended(self._essential):
                    serve.shutdown()  # type: ignore[no-untyped-call]
            finally:
                ray.shutdown(wait_for_processes=True)
                for process in self._started:  # those of a start that was ended
                    process.kill()
                    process.wait()
                end_all([*self._agents, *left_by_ray(self._temp_dir)])


def wait_for_node(get_node: Callable[[], Any], check: Callable[[], None]) -> Any:
    """Waits until the node of Ray has registered, for at most `START_TIMEOUT_S`.

    An exception of `check` ends the wait.

    Raises:
        RuntimeError: It has not registered.
    """
    give_up = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return get_node()
        except RuntimeError:
            check()
            if time.monotonic() >= give_up:
                raise
            time.sleep(POLL_S)


def ended(processes: Iterable[RayProcess]) -> dict[str, int]:
    """The status of each essential process that has ended, by its name.

    Asking reaps them. Before that, workers take a killed raylet for running, and stay.
    """
    return {name: process.returncode for name, process in processes if process.poll() is not None}


def _how(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def require_started(processes: Iterable[RayProcess], log_dir: Path) -> None:
    """Raises `DeskStartError` if an essential process ended, with what it has logged."""
    for name, status in ended(processes).items():
        log = log_dir / f"{name}.err"
        said = log.read_text(errors="replace") if log.is_file() else ""
        first = next((line for line in said.splitlines() if line.strip()), "it logged no reason")
        _, _, why = first.rpartition("Check failed: ")
        load, _, _ = os.getloadavg()
        raise DeskStartError(
            f"Ray's process {name} {_how(status)} while it was starting: {why}\n"
            f"The load of this machine is {load:.0f}, with {os.cpu_count()} processors: if that is "
            "why, start again when less is running"
        )


def require_essential(processes: Iterable[RayProcess]) -> None:
    """Raises `DeskEndedError` if an essential process has ended."""
    for name, status in ended(processes).items():
        raise DeskEndedError(
            f"Ray's process {name} {_how(status)}, and nothing is answered without it. Start "
            "again: what was acknowledged is stored"
        )


def waits_for(application: ApplicationStatusOverview | None) -> str:
    """The deployments that are not running yet, and what Serve says about them."""
    deployments = {} if application is None else application.deployments
    waiting = [
        f"{name} ({deployment.message})" if deployment.message else name
        for name, deployment in deployments.items()
        if deployment.status != "HEALTHY"
    ]
    return f"waiting for {', '.join(waiting)}" if waiting else "waiting for Serve"


def _last_lines(application: Any) -> str:
    messages = [application.message, *(d.message for d in application.deployments.values())]
    lines = "\n".join(message for message in messages if message).splitlines()
    return "\n".join(lines[-20:])
