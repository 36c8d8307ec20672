"""A Ray cluster of one process tree, on loopback, that ends with the process that started it.

Ray reads its environment when it is imported: `ray_environment.desk_environment` must be
in force before this module is.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import ray
import ray._private.services
import ray._private.utils
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

from serving.config import ServeSettings
from serving.deployments.ray_environment import (
    LOOPBACK,
    TOKEN_FILE,
    DeskAddresses,
    DeskStartError,
    free_ports,
)

logger = logging.getLogger(__name__)

LOGICAL_CPUS = 16
"""What Ray may hand out to replicas that ask for a tenth each; not the machine's cores."""
OBJECT_STORE_BYTES = 80_000_000
"""Ray's floor: nothing of ours goes through the object store."""
START_TIMEOUT_S = 240.0
POLL_S = 0.1
GONE_TIMEOUT_S = 5.0

PORTS = ("grpc_port", "http_port", "dashboard_port", "metrics_port")


def choose_ports(settings: ServeSettings) -> dict[str, int]:
    """The ports of the settings, by name; in the place of each 0 a free one.

    Raises:
        DeskStartError: A port that was named cannot be listened on.
    """
    named = {name: getattr(settings, name) for name in PORTS}
    for name, port in named.items():
        if port:
            _require_free(port, f"TRIVIUM_SERVE__{name.upper()}")
    # In one go, so that no two get the same.
    free = count(free_ports(len(PORTS)))
    return {name: port or next(free) for name, port in named.items()}


def _require_free(port: int, setting: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                what = "is in use; end what listens there, or choose another"
            else:
                what = f"cannot be listened on ({error.strerror}); choose another"
            raise DeskStartError(f"port {port} {what} with {setting}") from error


@contextlib.contextmanager
def _signals_left_to_us() -> Iterator[None]:
    """Keeps signals away from Ray, which we stop in order instead.

    Ray would take SIGTERM over and end this process without stopping the stores. And Ctrl-C goes
    to the whole process group: Ray's dashboard dies of it, and a start waits a minute for it.
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
        # Below Python's handlers, the core worker puts one that aborts.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


class DeskRay:
    """Starts Ray and Serve in this process, deploys one application, and stops both.

    Args:
        ports: The port of each of `PORTS`.
        temp_dir: For sockets, logs and the token.
        check: Is called between steps and while waiting; what it raises ends the start.
    """

    def __init__(self, ports: Mapping[str, int], temp_dir: Path, check: Callable[[], None]) -> None:
        self._ports = ports
        self._temp_dir = temp_dir
        self._check = check
        self._serves = False

    def start(self) -> DeskAddresses:
        """Starts Ray with the dashboard; takes 7-10 s."""
        ports = self._ports
        with _signals_left_to_us():
            context = ray.init(
                num_cpus=LOGICAL_CPUS,
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=True,
                dashboard_host=LOOPBACK,
                dashboard_port=ports["dashboard_port"],
                _node_ip_address=LOOPBACK,
                _metrics_export_port=ports["metrics_port"],
                _temp_dir=str(self._temp_dir),
                runtime_env={
                    "worker_process_setup_hook": "serving.deployments.loopback.bind_to_loopback"
                },
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        self._check()
        return DeskAddresses(
            grpc=f"{LOOPBACK}:{ports['grpc_port']}",
            dashboard=f"http://{context.dashboard_url}",
            metrics=f"http://{LOOPBACK}:{ports['metrics_port']}/metrics",
            token_file=self._temp_dir / TOKEN_FILE,
        )

    def deploy(self, config: Mapping[str, Any]) -> None:
        """Deploys a Serve config, as `serve deploy` would, and waits until it runs.

        Raises:
            DeskStartError: It failed or took longer than `START_TIMEOUT_S`.
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
        self._wait_until_running(schema.applications[0].name)

    def _wait_until_running(self, name: str) -> None:
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < give_up_at:
            application = serve.status().applications.get(name)
            if application is not None and application.status == "RUNNING":
                return
            if application is not None and application.status in ("DEPLOY_FAILED", "UNHEALTHY"):
                raise DeskStartError(_last_lines(application))
            self._check()
            time.sleep(POLL_S)
        raise DeskStartError(f"the service was not running after {START_TIMEOUT_S:.0f} s")

    @property
    def log_dir(self) -> Path:
        """Where Ray and Serve log."""
        return self._temp_dir / "session_latest" / "logs"

    def stop(self) -> None:
        """Stops everything that was started, a half-started Ray too; nothing of it stays."""
        grandchildren = _grandchildren(self._temp_dir)
        # Ray prints what each of its actors has to say about being ended.
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                if self._serves:
                    serve.shutdown()  # type: ignore[no-untyped-call]
            finally:
                ray.shutdown(wait_for_processes=True)
                # Ray waits for its own processes, and not for those that its dashboard forked.
                psutil.wait_procs(grandchildren, timeout=GONE_TIMEOUT_S)


def _grandchildren(temp_dir: Path) -> list[psutil.Process]:
    """The processes started by those that Ray has started, which have its folder in a command."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if str(temp_dir) in " ".join(child.cmdline()):
                found += child.children(recursive=True)
    return found


def _last_lines(application: Any) -> str:
    messages = [application.message, *(d.message for d in application.deployments.values())]
    lines = "\n".join(message for message in messages if message).splitlines()
    return "\n".join(lines[-20:])
