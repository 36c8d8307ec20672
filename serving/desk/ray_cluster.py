"""A Ray cluster on loopback, in one process tree, that ends with the process that started it.

Ray reads its environment at import: `ray_environment.desk_environment` must be set before this
module is imported.
"""

from __future__ import annotations

import contextlib
import io
import logging
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import ray
import ray._private.services
import ray._private.utils
import ray._private.worker
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ApplicationStatusOverview, ServeDeploySchema

from serving.desk.leftovers import end_all, left_by_ray
from serving.desk.ray_environment import (
    LOOPBACK,
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
NODE_TIMEOUT_S = 90.0
START_TIMEOUT_S = 240.0
REPORT_EVERY_S = 10.0
POLL_S = 0.1

ESSENTIAL = ("raylet", "gcs_server")
"""Ray's processes without which replicas end; the others are for the dashboard and for logs."""


@contextlib.contextmanager
def _signals_left_to_us() -> Iterator[None]:
    """Hides signals from Ray, so that the desk can stop its parts in order.

    Ray would handle SIGTERM by ending this process without stopping the stores. Ctrl-C is sent to
    the whole process group: it kills Ray's dashboard, and a start then waits a minute for it.
    """
    utils: Any = ray._private.utils
    services: Any = ray._private.services
    replaced = utils.set_sigterm_handler, services.ConsolePopen
    utils.set_sigterm_handler = lambda _handler: None
    services.ConsolePopen = partial(services.ConsolePopen, process_group=0)
    try:
        yield
    finally:
        utils.set_sigterm_handler, services.ConsolePopen = replaced
        # The core worker has installed a C handler that aborts; replace it.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """Lets Ray's node take up to `NODE_TIMEOUT_S` to register, which is 30 s in Ray itself.

    On a busy machine with few cores it can take longer.
    """
    services: Any = ray._private.services
    get_node = services.get_node

    def wait_for_node(gcs_address: str, node_id: str) -> Any:
        give_up = time.monotonic() + NODE_TIMEOUT_S
        while True:
            try:
                return get_node(gcs_address, node_id)
            except RuntimeError:  # not registered yet
                if time.monotonic() >= give_up:
                    raise
                time.sleep(POLL_S)

    services.get_node = wait_for_node
    try:
        yield
    finally:
        services.get_node = get_node


class DeskRay:
    """Starts Ray and Serve in this process, deploys one application, and stops both.

    `check` is called between steps and while waiting; an exception from it ends the start.
    """

    def __init__(self, ports: Mapping[str, int], temp_dir: Path, check: Callable[[], None]) -> None:
        self._ports = ports
        self._temp_dir = temp_dir
        self._check = check
        self._serves = False
        self._agents: list[psutil.Process] = []

    def start(self) -> DeskAddresses:
        """Starts Ray with the dashboard; takes 7-10 s."""
        ports = self._ports
        with _signals_left_to_us(), patience():
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
        self._agents = _children_of_raylet()
        self._check()
        return DeskAddresses(
            grpc=f"{LOOPBACK}:{ports['grpc_port']}",
            http=f"http://{LOOPBACK}:{ports['http_port']}",
            dashboard=f"http://{context.dashboard_url}",
            metrics=f"http://{LOOPBACK}:{ports['metrics_port']}/metrics",
            token_file=self._temp_dir / TOKEN_FILE,
        )

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
        require_essential(_dead_processes())

    def stop(self) -> None:
        """Stops everything that was started, also after an incomplete start or without a raylet."""
        # Ray prints a message for each actor that is killed.
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                if self._serves and not any(name in ESSENTIAL for name, _ in _dead_processes()):
                    serve.shutdown()  # type: ignore[no-untyped-call]
            finally:
                ray.shutdown(wait_for_processes=True)
                end_all([*self._agents, *left_by_ray(self._temp_dir)])


def _children_of_raylet() -> list[psutil.Process]:
    """Before there are workers: its agents, which hide their environment from `left_by_ray`."""
    node: Any = ray._private.worker._global_node
    [raylet] = node.all_processes["raylet"]
    return psutil.Process(raylet.process.pid).children()


def _dead_processes() -> list[tuple[str, subprocess.Popen[bytes]]]:
    """Those of Ray's own processes that have ended, with their names.

    Asking reaps them. Before that, workers take a killed raylet for running, and stay.
    """
    node: Any = ray._private.worker._global_node
    return [] if node is None else node.dead_processes()


def require_essential(dead: Iterable[tuple[str, subprocess.Popen[bytes]]]) -> None:
    """Raises `DeskEndedError` if an essential process is among those that have ended."""
    for name, process in dead:
        if name in ESSENTIAL:
            status = process.returncode
            by_signal = f"was ended by {signal.Signals(-status).name}" if status < 0 else ""
            raise DeskEndedError(
                f"Ray's process {name} {by_signal or f'ended with status {status}'}, and nothing "
                "is answered without it. Start again: what was acknowledged is stored"
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
