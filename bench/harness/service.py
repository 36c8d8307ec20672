"""Starts the service as `make serve` does, on fresh data, and stops it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import click
import psutil

from trivium.aio import AsyncClient
from trivium.errors import TriviumError
from trivium.values import Health

START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 90.0
ADDRESS_LABEL = "gRPC:"
LOG_NAME = "serve.log"

KEPT_QUESTIONS = 64
"""Vectors of questions that the service keeps while it is measured: fewer than a set has questions,
so that each is embedded when its turn comes again, and enough for the legs of one to share it."""


class ServiceStartError(Exception):
    """The service did not start; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Target:
    """A service: where it answers, and, if it was started here, its first process.

    `healthy_after_s` is the time from the command to the first SERVING.
    """

    address: str
    pid: int = 0
    healthy_after_s: float = 0.0


@contextlib.contextmanager
def fresh_data() -> Iterator[Path]:
    """A folder for data that PostgreSQL can enter, which runs under another account for root."""
    with tempfile.TemporaryDirectory(prefix="trb-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextlib.asynccontextmanager
async def running(address: str | None) -> AsyncIterator[Target]:
    """Yields a running service, or one that is started on fresh data.

    Raises:
        ServiceStartError: As in `started`.
    """
    if address is not None:
        yield Target(address)
        return
    click.echo("starting the service", err=True)
    with fresh_data() as data_dir:
        async with started(data_dir) as target:
            yield target
            click.echo("stopping the service", err=True)


@contextlib.asynccontextmanager
async def started(
    data_dir: Path, environment: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[Target]:
    """Starts the service and waits until it is healthy; ends it by SIGTERM.

    The environment has more settings, such as `TRIVIUM_NEO4J__URI`.

    Raises:
        ServiceStartError: It ended, or was not healthy within four minutes.
    """
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task; this is a bug"
    # So that the service is stopped too.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    log = data_dir / LOG_NAME
    since = time.perf_counter()
    with log.open("ab") as errors:
        # `env` adds to the environment that is there: it may choose a placement or a model.
        process = await asyncio.create_subprocess_exec(
            "env",
            f"TRIVIUM_DATA_DIR={data_dir}",
            f"TRIVIUM_EMBEDDER__KEPT_QUESTIONS={KEPT_QUESTIONS}",
            *(f"TRIVIUM_SERVE__{name}_PORT=0" for name in ("GRPC", "HTTP", "DASHBOARD", "METRICS")),
            *(f"{name}={value}" for name, value in environment.items()),
            *(sys.executable, "-m", "serving", "serve"),
            stdout=PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for us; we then stop it in order
        )
    try:
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                address = await _read_address(process)
                await _until_serving(address)
        except (TimeoutError, EOFError) as error:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
            raise ServiceStartError(f"the service did not start:\n{last}") from error
        yield Target(address, process.pid, time.perf_counter() - since)
    finally:
        await _stop(process)


async def _read_address(process: Process) -> str:
    assert process.stdout is not None, "it was made with a pipe; this is a bug"
    async for line in process.stdout:
        text = line.decode().strip()
        if text.startswith(ADDRESS_LABEL):
            return text.removeprefix(ADDRESS_LABEL).strip()
    raise EOFError("ended without printing its address")


async def _until_serving(address: str) -> None:
    async with AsyncClient(address, tenant="bench") as client:
        while True:
            with contextlib.suppress(TriviumError):
                if await client.check() is Health.SERVING:
                    return
            await asyncio.sleep(0.05)


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        # Reads what it still prints, or a full pipe could keep it from ending.
        await asyncio.wait_for(process.communicate(), STOP_TIMEOUT_S)
    except TimeoutError:
        root = psutil.Process(process.pid)
        for each in [*root.children(recursive=True), root]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        await process.wait()
