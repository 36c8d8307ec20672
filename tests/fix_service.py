"""The whole service as a user starts it, once per placement."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.processes import is_alive, tree_of
from trivium import Client

START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 60.0


@dataclass(slots=True)
class Service:
    """A service that runs as a process of its own."""

    placement: str
    address: str
    dashboard: str
    token: str
    metrics: str
    process: psutil.Process
    data_dir: Path
    log_dir: Path
    output: list[str] = field(default_factory=list)

    def client(self, tenant: str, timeout: float = 30.0) -> Client:
        return Client(self.address, tenant=tenant, timeout=timeout)

    def descendants(self, name: str = "") -> list[psutil.Process]:
        """The processes of the service whose command line has `name` in it."""
        found = []
        for process in self.process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if name in " ".join(process.cmdline()):
                    found.append(process)
        return found


def environment(data_dir: Path, placement: str) -> dict[str, str]:
    listening = ("GRPC", "HTTP", "DASHBOARD", "METRICS")
    ports = {f"TRIVIUM_SERVE__{name}_PORT": "0" for name in listening}
    return {
        **os.environ,  # noqa: TID251 - a child process inherits it
        **ports,
        "TRIVIUM_DATA_DIR": str(data_dir),
        "TRIVIUM_SERVE__PLACEMENT": placement,
    }


@contextlib.contextmanager
def started_service(placement: str, **overrides: str) -> Iterator[Service]:
    """Runs `python -m serving serve` until the end of the block; nothing of it may stay."""
    with (
        tempfile.TemporaryDirectory(prefix="trivium-test-") as folder,
        tempfile.TemporaryDirectory(prefix="trv-") as temporary,
    ):
        data_dir = Path(folder)
        data_dir.chmod(0o755)  # PostgreSQL runs under another account if we are root
        process = subprocess.Popen(
            [sys.executable, "-m", "serving", "serve"],
            env={**environment(data_dir, placement), "TMPDIR": temporary, **overrides},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            service = _when_up(process, placement, data_dir)
            yield service
        finally:
            tree = tree_of(process.pid)
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=STOP_TIMEOUT_S)
            finally:
                left = [each for each in tree if is_alive(each)]
                for each in left:
                    each.kill()
        assert not left, f"left behind: {[each.name() for each in left]}"
        assert not os.listdir(temporary), f"left behind: {os.listdir(temporary)}"
        assert process.returncode == 0, f"ended with {process.returncode}"


def _when_up(process: subprocess.Popen[str], placement: str, data_dir: Path) -> Service:
    output: list[str] = []
    for line in _lines(process, START_TIMEOUT_S):
        output.append(line)
        if line.startswith("Ctrl-C"):
            said = "".join(output)
            token_file = Path(re.findall(r"token in (\S+)\)", said)[0])
            return Service(
                placement=placement,
                address=re.findall(r"gRPC: +(\S+)", said)[0],
                dashboard=re.findall(r"dashboard: +(\S+)", said)[0],
                token=token_file.read_text(),
                metrics=re.findall(r"metrics: +(\S+)", said)[0],
                process=psutil.Process(process.pid),
                data_dir=data_dir,
                log_dir=token_file.parent / "session_latest" / "logs",
                output=output,
            )
    raise AssertionError("the service did not come up:\n" + "".join(output))


def _lines(process: subprocess.Popen[str], timeout_s: float) -> Iterator[str]:
    """What the process prints; a process that takes too long is ended, and so are the lines."""
    assert process.stdout is not None
    give_up = threading.Timer(timeout_s, process.terminate)
    give_up.start()
    try:
        yield from iter(process.stdout.readline, "")
    finally:
        give_up.cancel()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs what asks for the service in each placement, unless it names its own."""
    named = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "service" in metafunc.fixturenames and "service" not in named:
        placements = metafunc.config.getoption("--placements").split(",")
        metafunc.parametrize("service", placements, indirect=True, scope="session")


@pytest.fixture(scope="session")
def service(request: pytest.FixtureRequest, tiny_bert_reranker: Path) -> Iterator[Service]:
    """The service with a tiny model for reranking, in one placement after the other."""
    with started_service(request.param, TRIVIUM_RERANKER__MODEL=str(tiny_bert_reranker)) as running:
        yield running
