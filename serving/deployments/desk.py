"""Everything on one machine: PostgreSQL, Neo4j, Ray and the service, started and stopped together.

A store with an address in the settings is used and not started.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from serving.adapters.embedded_neo4j.launcher import EmbeddedNeo4j
from serving.adapters.embedded_postgres import EmbeddedPostgres, PostgresStartError
from serving.config import Settings
from serving.deployments.app import serve_config
from serving.deployments.interruption import Interruption
from serving.deployments.ray_desk import DeskRay, choose_ports
from serving.deployments.ray_environment import DeskAddresses, DeskStartError
from serving.domain.errors import TriviumError

Report = Callable[[str], None]
LINES_OF_RAY = 12
WIDTH_OF_RAY = 300
"""Of what Ray has to say, so that it fits on one screen."""
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Desk:
    """What runs, and since how long the start took."""

    addresses: DeskAddresses
    started_in_s: float


class Server(Protocol):
    """A store of the desk's own."""

    def start(self) -> str:
        """Starts it; returns its address."""

    def stop(self) -> None:
        """Stops it, if it was started."""


@contextlib.contextmanager
def running_desk(
    settings: Settings, temp_dir: Path, interruption: Interruption, report: Report
) -> Iterator[Desk]:
    """Starts what is missing, deploys the service, and stops all of it at the end.

    What can be found wrong beforehand is, before anything starts. The stores start while Ray
    does. Whatever fails, what had started is stopped.

    Args:
        settings: The settings.
        temp_dir: A folder with a short path, for Ray's sockets and logs.
        interruption: Is looked at between steps and while there is something to wait for.
        report: Is told what happens, a line at a time.

    Raises:
        DeskStartError: Something did not come up.
        KeyboardInterrupt: A signal has come before everything was up.
    """
    started = time.monotonic()
    interruption.check()
    require_folders(settings)
    ports = choose_ports(settings.serve)
    progress = Progress(report)

    def begin_to_stop() -> None:
        progress.cancel()
        if not interruption.noted:  # else it was said at once
            report("stopping")

    with contextlib.ExitStack() as stack:
        report("starting Ray, PostgreSQL and Neo4j")
        postgres = stack.enter_context(started_aside(_postgres(settings)))
        neo4j = stack.enter_context(started_aside(_neo4j(settings, progress)))
        ray = DeskRay(ports, temp_dir, interruption.check)
        stack.callback(ray.stop)
        stack.callback(begin_to_stop)
        with logs_kept_on_failure(settings, ray.log_dir, report):
            with _ray_errors():
                addresses = ray.start()
            arguments = _arguments(
                settings,
                address_of(postgres, interruption.check),
                address_of(neo4j, interruption.check),
            )
            report("deploying the service")
            with _ray_errors():
                ray.deploy(serve_config(settings, arguments))
        yield Desk(addresses, time.monotonic() - started)


def require_folders(settings: Settings) -> None:
    """Makes the folders of the settings, if they are missing.

    Raises:
        DeskStartError: One cannot be made, or nothing can be written there.
    """
    _require_folder(settings.cache_dir, "TRIVIUM_CACHE_DIR")
    if settings.postgres.dsn is None or settings.neo4j.uri is None:
        _require_folder(settings.data_dir, "TRIVIUM_DATA_DIR")


def _require_folder(folder: Path, setting: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise DeskStartError(
            f"{folder} cannot be written ({error.strerror}); choose another folder with {setting}"
        ) from error


@contextlib.contextmanager
def started_aside(server: Server | None) -> Iterator[Future[str] | None]:
    """Starts a server in a thread; at the end waits for that, and stops the server.

    A stop in the middle of a start would find nothing to stop, and the server would stay.
    """
    if server is None:
        yield None
        return
    with ThreadPoolExecutor(max_workers=1) as thread:
        start = thread.submit(server.start)
        try:
            yield start
        finally:
            wait([start])
            server.stop()


def address_of(start: Future[str] | None, check: Callable[[], None]) -> str | None:
    """Waits for the address of a server that starts; None if there is none to start.

    Raises:
        DeskStartError: It did not start.
    """
    if start is None:
        return None
    while not start.done():
        check()
        wait([start], timeout=POLL_S)
    try:
        return start.result()
    except (PostgresStartError, TriviumError) as error:
        raise DeskStartError(str(error)) from error


@contextlib.contextmanager
def _ray_errors() -> Iterator[None]:
    """Shortens what Ray raises to its last lines: the rest is a traceback of Ray's."""
    try:
        yield
    except DeskStartError:
        raise
    except Exception as error:
        lines = [line[:WIDTH_OF_RAY] for line in str(error).splitlines() if line.strip()]
        raise DeskStartError("\n".join(["Ray said:", *lines[-LINES_OF_RAY:]])) from error


@contextlib.contextmanager
def logs_kept_on_failure(settings: Settings, log_dir: Path, report: Report) -> Iterator[None]:
    """Keeps the logs of a start that failed: those of Ray lie in a folder that is removed."""
    kept = settings.cache_dir / "failed-start"
    try:
        yield
    except DeskStartError:
        # A full disk may well be why the start failed; that is what has to be told.
        with contextlib.suppress(OSError):
            if _copy_logs(log_dir, settings.data_dir, kept):
                report(f"the logs are kept in {kept}")
        raise


def _copy_logs(ray_logs: Path, data_dir: Path, kept: Path) -> bool:
    """Copies the logs of Ray and of the stores; False if there are none."""
    logs = list(data_dir.glob("*/*.log"))
    if not logs and not ray_logs.is_dir():
        return False
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for log in logs:
        shutil.copy(log, kept)
    if ray_logs.is_dir():
        shutil.copytree(ray_logs, kept / "ray", ignore_dangling_symlinks=True)
    return True


class Progress:
    """Reports what a start in a thread does, until it is cancelled: then it ends that start.

    The jars of Neo4j take minutes to fetch, and nobody who has pressed Ctrl-C waits for them.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._cancelled = False

    def cancel(self) -> None:
        """Makes the next step the last."""
        self._cancelled = True

    def __call__(self, line: str) -> None:
        """Reports a step.

        Raises:
            CancelledError: Nobody waits for the start.
        """
        if self._cancelled:
            raise CancelledError
        self._report(line)


def _postgres(settings: Settings) -> EmbeddedPostgres | None:
    if settings.postgres.dsn is not None:
        return None
    return EmbeddedPostgres(settings.data_dir / "postgres")


def _neo4j(settings: Settings, progress: Report) -> EmbeddedNeo4j | None:
    if settings.neo4j.uri is not None:
        return None
    return EmbeddedNeo4j(
        settings.data_dir / "neo4j",
        settings.cache_dir,
        heap_mb=settings.neo4j.heap_mb,
        on_progress=progress,
    )


def _arguments(settings: Settings, dsn: str | None, uri: str | None) -> dict[str, Any]:
    """The settings that the replicas get: what the environment gave, they read themselves."""
    arguments: dict[str, Any] = {
        "cache_dir": str(settings.cache_dir),
        "serve": {"placement": settings.serve.placement},
    }
    if dsn is not None:
        arguments["postgres"] = {"dsn": dsn}
    if uri is not None:
        arguments["neo4j"] = {"uri": uri}
    return arguments
