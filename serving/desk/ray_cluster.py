"""A Ray cluster on loopback, in one process tree, that ends with the process that started it.

Ray reads its environment at import: `ray_environment.desk_environment` must be set before this
module is imported.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, TypeAlias

import psutil
import ray
import ray._private.services
import ray._private.utils
import ray.serve._private.api
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ApplicationStatusOverview, ServeDeploySchema

from serving.desk.leftovers import end_all, left_by_ray
from serving.desk.ray_environment import (
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
WIDTH_OF_REASON = 200
_FAILED_CHECK = re.compile(r".*Check failed: (?:\S+\(\) )?")
POLL_S = 0.1

ESSENTIAL = ("raylet", "gcs_server")
"""Ray's processes without which replicas end; the others are for the dashboard and for logs."""

AGENTS = 2
"""Of a raylet: the dashboard's, and that of environments."""
PORTS_OF_AGENTS = ("metrics_agent_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
"""As Ray names the files in which they write them."""

Process: TypeAlias = "subprocess.Popen[bytes]"


class DeskRay:
    """Starts Ray and Serve in this process, deploys one application, and stops both.

    `check` is called between steps and while waiting; an exception from it ends the start.
    """

    def __init__(
        self,
        ports: Mapping[str, int],
        temp_dir: Path,
        check: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        self._ports = ports
        self._temp_dir = temp_dir
        self._check = check
        self._report = report
        self._serves = False
        self._processes: list[Process] = []

    def start(self) -> DeskAddresses:
        """Starts Ray with the dashboard; takes 7-10 s, on a busy machine minutes.

        Raises:
            DeskStartError: One of its processes ended.
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
        it. For its node Ray waits 30 s, whatever has become of the node.
        """
        utils: Any = ray._private.utils
        services: Any = ray._private.services
        ours = [
            (utils, "set_sigterm_handler", lambda _handler: None),
            (services, "ConsolePopen", partial(self._spawn, services.ConsolePopen)),
            (services, "get_node", partial(self._registered, services.get_node)),
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

    def _spawn(self, popen: Callable[..., Process], *arguments: Any, **named: Any) -> Process:
        process = popen(*arguments, **named, process_group=0)
        self._processes.append(process)
        return process

    def _registered(self, get_node: Callable[..., Any], *names: str) -> Any:
        def check() -> None:
            self._check()
            require_started(self._essential, self.log_dir)

        raylet = psutil.Process(self._essential["raylet"].pid)
        wait_for_agents(raylet, self._temp_dir / "session_latest", check)
        return wait_for_node(partial(get_node, *names), check)

    @property
    def _essential(self) -> dict[str, Process]:
        return essential_of(self._processes)

    def deploy(self, config: Mapping[str, Any]) -> None:
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
        # Its proxies have 60 s to start, which a busy machine takes longer for.
        proxies: Any = ray.serve._private.api
        proxies.HTTP_PROXY_TIMEOUT = START_TIMEOUT_S
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
        self._wait_until_running(schema.applications[0].name)

    def _wait_until_running(self, name: str) -> None:
        started = time.monotonic()
        report_at = started + REPORT_EVERY_S
        while time.monotonic() < started + START_TIMEOUT_S:
            application = serve.status().applications.get(name)
            if application is not None and application.status == "RUNNING" and self._is_reached():
                return
            if application is not None and application.status in ("DEPLOY_FAILED", "UNHEALTHY"):
                raise DeskStartError(_last_lines(application))
            if (now := time.monotonic()) >= report_at:
                self._report(f"deploying for {now - started:.0f} s; {waits_for(application)}")
                report_at += REPORT_EVERY_S
            self._check()
            self.require_alive()
            time.sleep(POLL_S)
        raise DeskStartError(f"the service was not running after {START_TIMEOUT_S:.0f} s")

    def _is_reached(self) -> bool:
        """Whether HAProxy has a replica for calls, which it learns a second later."""
        connection = HTTPConnection(LOOPBACK, self._ports["http_port"], timeout=REPORT_EVERY_S)
        try:
            connection.request("GET", "/-/healthz")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

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
                if self._serves and not [*ended(self._essential)]:
                    serve.shutdown()  # type: ignore[no-untyped-call]
            finally:
                ray.shutdown(wait_for_processes=True)
                for process in self._processes:  # those of a start that failed
                    process.kill()
                    process.wait()
                end_all(left_by_ray(self._temp_dir))
                self._processes = []


def essential_of(processes: Iterable[Process]) -> dict[str, Process]:
    """The essential ones of Ray's processes, by the names of their programs."""
    named = {Path(str(process.args[0])).name: process for process in processes}  # type: ignore[index]
    return {name: process for name, process in named.items() if name in ESSENTIAL}


def wait_for_agents(raylet: psutil.Process, session: Path, check: Callable[[], None]) -> None:
    """Suspends a raylet until its agents have written their ports, for at most `START_TIMEOUT_S`.

    A raylet ends by itself if they have not 15 s after it has started them, which no setting of Ray
    changes, and on a busy machine an agent needs longer. If one ends, the raylet goes on, and ends
    with the reason. An exception of `check` ends the wait.

    Args:
        raylet: Which has started nothing else yet.
        session: The folder of Ray's session, with a file for each port.
        check: Called in intervals.
    """
    give_up = time.monotonic() + START_TIMEOUT_S
    agents: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        try:
            while time.monotonic() < give_up and not all(
                any(session.glob(f"{port}_*")) for port in PORTS_OF_AGENTS
            ):
                check()
                if len(agents) < AGENTS:
                    agents = raylet.children()
                elif any(agent.status() == psutil.STATUS_ZOMBIE for agent in agents):
                    return
                else:
                    raylet.suspend()
                time.sleep(POLL_S)
        finally:
            raylet.resume()


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


def ended(processes: Mapping[str, Process]) -> Iterator[tuple[str, str]]:
    """The name of each process that has ended, and how.

    Asking reaps them. Before that, workers take a killed raylet for running, and stay.
    """
    for name, process in processes.items():
        if (status := process.poll()) is not None:
            by_signal = f"was ended by {signal.Signals(-status).name}" if status < 0 else ""
            yield name, by_signal or f"ended with status {status}"


def require_started(processes: Mapping[str, Process], log_dir: Path) -> None:
    """Raises `DeskStartError` if a process has ended, with what it has logged."""
    for name, how in ended(processes):
        log = log_dir / f"{name}.err"
        said = log.read_text(errors="replace") if log.is_file() else ""
        first = next((line for line in said.splitlines() if line.strip()), "it logged no reason")
        why = _FAILED_CHECK.sub("", first).strip()[:WIDTH_OF_REASON]
        load, _, _ = os.getloadavg()
        raise DeskStartError(
            f"Ray's process {name} {how} while it was starting, at a load of {load:.0f} on "
            f"{os.cpu_count()} processors: {why}"
        )


def require_essential(processes: Mapping[str, Process]) -> None:
    """Raises `DeskEndedError` if an essential process has ended."""
    for name, how in ended(processes):
        raise DeskEndedError(
            f"Ray's process {name} {how}, and nothing is answered without it. Start again: what "
            "was acknowledged is stored"
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
