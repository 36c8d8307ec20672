"""The desk: PostgreSQL, Neo4j, Ray and the service on one machine, started and stopped together.

A store whose address is in the settings is used as it is and not started.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from serving.adapters.encoder.published import PUBLISHED, open_model
from serving.adapters.postgres.connection.errors import StatementRejectedError
from serving.adapters.postgres.connection.migrations import SchemaTooNewError, migrate
from serving.composition.extras import missing_modules, require_extras
from serving.config.settings import Settings
from serving.deployments.app import serve_config
from serving.desk.embedded_neo4j.launcher import EmbeddedNeo4j
from serving.desk.embedded_postgres import EmbeddedPostgres, PostgresStartError
from serving.desk.embedded_postgres.service_role import give_to_service
from serving.desk.interruption import Interruption
from serving.desk.ray_cluster import DeskRay
from serving.desk.ray_environment import DeskAddresses, DeskEndedError, DeskStartError, choose_ports
from serving.desk.supervisor import Server, supervised
from serving.domain.errors import DependencyError, TriviumError, UnavailableError

Report = Callable[[str], None]
Result = TypeVar("Result")
STEP = re.compile(r"(?P<done>\d+) of (?P<total>\d+)")
STEPS_REPORTED = 4
LINES_OF_RAY = 12
WIDTH_OF_RAY = 300
"""Limits for the error output of Ray, so that it fits on one screen."""
POLL_S = 0.1
MIN_OPEN_FILES = 8_300
"""HAProxy accepts 4,096 connections, with two files each, and does not start without them."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A running desk: its addresses, the duration of the start, and what keeps it running.

    `tend` raises `DeskEndedError` if Ray has ended; call it in intervals.
    """

    addresses: DeskAddresses
    started_in_s: float
    tend: Callable[[], None]


@contextlib.contextmanager
def running_desk(
    settings: Settings, temp_dir: Path, interruption: Interruption, report: Report
) -> Iterator[Desk]:
    """Starts the missing parts, deploys the service, and stops everything at the end.

    Folders, key files and ports are checked before anything starts. The stores start in parallel
    with Ray. After any failure, everything that was started is stopped. `temp_dir` is a folder with
    a short path, for Ray's sockets and logs.

    Raises:
        DeskStartError: A part did not start.
        KeyboardInterrupt: A signal arrived before everything was running.
    """
    began_at = time.monotonic()
    interruption.check()
    require_open_files()
    require_folders(settings)
    _require_extras(settings)
    require_key_files(settings)
    ports = choose_ports(settings.serve)
    progress = CancellableReport(report)

    def begin_to_stop() -> None:
        progress.cancel()
        if not interruption.noted:  # otherwise the signal handler has reported it
            report("stopping")

    with contextlib.ExitStack() as stack:
        report("starting Ray, PostgreSQL and Neo4j")

        postgres = neo4j = None
        if settings.postgres.dsn is None:
            server: Server = EmbeddedPostgres(settings.data_dir / "postgres")
            without_it = "Nothing is answered without it."
            postgres = stack.enter_context(supervised(server, without_it, report))
        if settings.neo4j.uri is None:
            server = EmbeddedNeo4j(
                settings.data_dir / "neo4j",
                settings.cache_dir,
                heap_mb=settings.neo4j.heap_mb,
                on_progress=progress,
            )
            without_it = "Questions are answered without relations."
            neo4j = stack.enter_context(supervised(server, without_it, report))
        in_background = stack.enter_context(ThreadPoolExecutor(max_workers=1))
        encoder = in_background.submit(_fetch_encoder, settings, progress)
        ray = DeskRay(ports, temp_dir, interruption.check, report)
        stack.callback(ray.stop)
        stack.callback(begin_to_stop)
        with logs_kept_on_failure(settings, ray.log_dir, report):
            with _ray_errors():
                addresses = ray.start()
            dsn = _migrated(settings, result_of(postgres, interruption.check))
            arguments = _arguments(settings, dsn, result_of(neo4j, interruption.check))
            result_of(encoder, interruption.check)
            report("deploying the service")
            with _ray_errors():
                ray.deploy(serve_config(settings, arguments))
            yield Desk(addresses, time.monotonic() - began_at, ray.require_alive)


def _require_extras(settings: Settings) -> None:
    try:
        require_extras(settings)
    except DependencyError as error:
        raise DeskStartError(error.why) from error
    if settings.neo4j.uri is None and (missing := missing_modules("desk")):
        raise DeskStartError(
            f"the embedded Neo4j needs {', '.join(missing)}: pip install 'trivium-server[desk]', "
            "or set TRIVIUM_NEO4J__URI"
        )


def require_open_files() -> None:
    """Raises the limit of open files as far as the desk needs, for all that it starts.

    Raises:
        DeskStartError: The limit of the account is lower.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if hard != unlimited and hard < MIN_OPEN_FILES:
        raise DeskStartError(
            f"only {hard:,} files may be open at once, and HAProxy needs {MIN_OPEN_FILES:,} for "
            f"its connections: start again after `ulimit -Hn {MIN_OPEN_FILES}`, which an "
            "administrator may have to allow in /etc/security/limits.conf"
        )
    if soft != unlimited and soft < MIN_OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (MIN_OPEN_FILES, hard))


def require_folders(settings: Settings) -> None:
    """Creates missing folders of the settings; raises `DeskStartError` if it cannot write there."""
    folders = {"TRIVIUM_CACHE_DIR": settings.cache_dir}
    if settings.postgres.dsn is None or settings.neo4j.uri is None:
        folders["TRIVIUM_DATA_DIR"] = settings.data_dir
    for setting, folder in folders.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise DeskStartError(
                f"cannot write to {folder} ({error.strerror}); set {setting} to another folder"
            ) from error


def require_key_files(settings: Settings) -> None:
    """Reads the keys of other services, which a replica would fail without in a long traceback.

    Raises:
        DeskStartError: The file of one cannot be read.
    """
    for api in (settings.embedder.api, settings.reranker.api, settings.extraction.api):
        try:
            if api is not None:
                api.secret()
        except OSError as error:
            raise DeskStartError(f"key_file {error.filename}: {error.strerror}") from error


def result_of(start: Future[Result] | None, check: Callable[[], None]) -> Result | None:
    """Waits for a part that is starting, and returns its result; None for no part.

    Raises `DeskStartError` if it did not start.
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


def _migrated(settings: Settings, embedded: str | None) -> str | None:
    """Migrates the database; returns the DSN of the service's role in an embedded one."""
    if settings.postgres.dsn is not None:
        require_schema(settings.postgres.dsn.get_secret_value())
    if embedded is None:
        return None
    require_schema(embedded)
    return give_to_service(embedded)


def require_schema(dsn: str) -> None:
    """Migrates the database before anything uses it; a replica could not report why it cannot.

    Raises:
        DeskStartError: Its schema is newer than this program, or the account may not migrate it.
    """
    try:
        # Replicas wait for a PostgreSQL that cannot be reached.
        with contextlib.suppress(UnavailableError):
            asyncio.run(migrate(dsn))
    except (SchemaTooNewError, StatementRejectedError) as error:
        raise DeskStartError(f"PostgreSQL cannot be used: {error}") from error


@contextlib.contextmanager
def _ray_errors() -> Iterator[None]:
    """Shortens errors of Ray to their last lines; the rest is a traceback inside Ray."""
    try:
        yield
    except DeskStartError:
        raise
    except Exception as error:
        lines = [line[:WIDTH_OF_RAY] for line in str(error).splitlines() if line.strip()]
        raise DeskStartError("\n".join(["Ray failed:", *lines[-LINES_OF_RAY:]])) from error


@contextlib.contextmanager
def logs_kept_on_failure(settings: Settings, log_dir: Path, report: Report) -> Iterator[None]:
    """Copies the logs of a desk that failed, because Ray's log folder is removed at exit."""
    kept = settings.cache_dir / "failed-desk"
    try:
        yield
    except (DeskStartError, DeskEndedError):
        # It may have failed because the disk is full; report that error, not this one.
        with contextlib.suppress(OSError):
            if _copy_logs(log_dir, settings.data_dir, kept):
                report(f"logs are in {kept}")
        raise


def _copy_logs(ray_logs: Path, data_dir: Path, kept: Path) -> bool:
    """Copies the logs of Ray and of the stores; returns False if there are none."""
    logs = list(data_dir.glob("*/*.log"))
    if not logs and not ray_logs.is_dir():
        return False
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(mode=0o700, parents=True)
    for log in logs:
        shutil.copy(log, kept)
    if ray_logs.is_dir():
        shutil.copytree(ray_logs, kept / "ray", ignore_dangling_symlinks=True)
    return True


class CancellableReport:
    """Reports the progress of a start in a thread; once cancelled, it aborts that start.

    The download of Neo4j takes minutes, and Ctrl-C must not wait for it. Of its many steps,
    `STEPS_REPORTED` are passed on.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._cancelled = False

    def cancel(self) -> None:
        """Makes the next report raise."""
        self._cancelled = True

    def __call__(self, line: str) -> None:
        """Reports a step; raises `CancelledError` if the start was cancelled."""
        if self._cancelled:
            raise CancelledError
        if step := STEP.search(line):
            done, total = int(step["done"]), int(step["total"])
            if done * STEPS_REPORTED // total == (done - 1) * STEPS_REPORTED // total:
                return
        self._report(line)


def _fetch_encoder(settings: Settings, progress: Report) -> None:
    """Downloads the files of the encoder, unless they are there, before a replica needs them.

    A replica could not report the progress. A model from the hub is left to the replica.
    """
    name = settings.embedder.model
    if name in PUBLISHED and settings.embedder.api is None:
        open_model(name, settings.cache_dir, fetch=True, on_progress=progress)


def _arguments(settings: Settings, dsn: str | None, uri: str | None) -> dict[str, Any]:
    """The settings that are passed to the replicas; they read the environment themselves."""
    arguments: dict[str, Any] = {
        "cache_dir": str(settings.cache_dir),
        "serve": {"placement": settings.serve.placement},
        # The desk listens on loopback only; `bind_to_loopback` makes sure of it.
        "auth": {"allow_anonymous": True},
        "http": {"ui": settings.http.ui is not False},
    }
    if dsn is not None:
        arguments["postgres"] = {"dsn": dsn}
    if uri is not None:
        arguments["neo4j"] = {"uri": uri}
    return arguments
