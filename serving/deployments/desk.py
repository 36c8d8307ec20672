"""Everything on one machine: PostgreSQL, Neo4j, Ray and the service, started and stopped together.

A store with an address in the settings is used and not started.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.adapters.embedded_neo4j.launcher import EmbeddedNeo4j
from serving.adapters.embedded_postgres import EmbeddedPostgres, PostgresStartError
from serving.config import Settings
from serving.deployments.app import serve_config
from serving.deployments.ray_desk import DeskRay, DeskStartError
from serving.deployments.ray_environment import DeskAddresses
from serving.domain.errors import TriviumError

Report = Callable[[str], None]
LINES_OF_RAY = 12

START_ERRORS = (DeskStartError, PostgresStartError, TriviumError)
"""What `running_desk` raises when something does not come up."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What runs, and since how long the start took."""

    addresses: DeskAddresses
    started_in_s: float


@contextlib.contextmanager
def running_desk(settings: Settings, temp_dir: Path, report: Report) -> Iterator[Desk]:
    """Starts what is missing, deploys the service, and stops all of it at the end.

    The stores start while Ray does. Whatever fails, what had started is stopped.

    Args:
        settings: The settings.
        temp_dir: A folder with a short path, for Ray's sockets and logs.
        report: Is told what happens, a line at a time.

    Raises:
        DeskStartError: Ray or the service did not come up.
        PostgresStartError, DependencyError: A store did not.
    """
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(max_workers=2))
        postgres = threads.submit(_start_postgres, settings, stack)
        neo4j = threads.submit(_start_neo4j, settings, stack, report)
        report("starting Ray, PostgreSQL and Neo4j")
        ray = DeskRay(settings.serve, temp_dir)
        stack.callback(ray.stop)
        with _logs_kept_on_failure(settings, ray.log_dir, report):
            with _ray_errors():
                addresses = ray.start()
            arguments = _arguments(settings, postgres, neo4j)
            report("deploying the service")
            with _ray_errors():
                ray.deploy(serve_config(settings, arguments))
        yield Desk(addresses, time.monotonic() - started)
        report("stopping")


@contextlib.contextmanager
def _ray_errors() -> Iterator[None]:
    """Shortens what Ray raises to its last lines: the rest is a traceback of Ray's."""
    try:
        yield
    except DeskStartError:
        raise
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise DeskStartError("\n".join(["Ray said:", *lines[-LINES_OF_RAY:]])) from error


@contextlib.contextmanager
def _logs_kept_on_failure(settings: Settings, log_dir: Path, report: Report) -> Iterator[None]:
    """Keeps the logs of a start that failed: those of Ray lie in a folder that is removed."""
    kept = settings.cache_dir / "failed-start"
    try:
        yield
    except START_ERRORS:
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(log_dir, kept / "ray", dirs_exist_ok=True, ignore_dangling_symlinks=True)
        for log in settings.data_dir.glob("*/*.log"):
            shutil.copy(log, kept)
        report(f"the logs are kept in {kept}")
        raise


def _start_postgres(settings: Settings, stack: contextlib.ExitStack) -> str | None:
    if settings.postgres.dsn is not None:
        return None
    postgres = EmbeddedPostgres(settings.data_dir / "postgres")
    stack.callback(postgres.stop)
    return postgres.start()


def _start_neo4j(settings: Settings, stack: contextlib.ExitStack, report: Report) -> str | None:
    if settings.neo4j.uri is not None:
        return None
    neo4j = EmbeddedNeo4j(
        settings.data_dir / "neo4j",
        settings.cache_dir,
        heap_mb=settings.neo4j.heap_mb,
        on_progress=report,
    )
    stack.callback(neo4j.stop)
    return neo4j.start()


def _arguments(
    settings: Settings, postgres: Future[str | None], neo4j: Future[str | None]
) -> dict[str, Any]:
    """The settings that the replicas get: what the environment gave, they read themselves."""
    arguments: dict[str, Any] = {
        "cache_dir": str(settings.cache_dir),
        "serve": {"placement": settings.serve.placement},
    }
    if (dsn := postgres.result()) is not None:
        arguments["postgres"] = {"dsn": dsn}
    if (uri := neo4j.result()) is not None:
        arguments["neo4j"] = {"uri": uri}
    return arguments
