"""A desk whose processes can be killed and suspended, and which starts again on the same data."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from psycopg.conninfo import make_conninfo

from bench.harness.processes import role_of
from bench.harness.service import fresh_data
from serving.desk.ray_environment import LOOPBACK, TEMP_DIR_PREFIX, free_ports
from tests.fixtures.service import STOP_TIMEOUT_S, environment, when_up
from tests.support.processes import is_alive, listeners, mentioning, tree_of

NEO4J = "neo4j"
FAILED = 1


class Desk:
    """The desk in one placement, on the same ports for all its lives.

    Args:
        data_dir: Its data.
        temporary: The folder for its temporary files, which a killed desk leaves behind.
        placement: As in the settings.
    """

    def __init__(self, data_dir: Path, temporary: Path, placement: str) -> None:
        port = free_ports(2)
        self.address = f"{LOOPBACK}:{port}"
        self.http = f"http://{LOOPBACK}:{port + 1}"
        self._data_dir = data_dir
        self._temporary = temporary
        self._placement = placement
        self._environment = {
            **environment(data_dir, placement),
            "TRIVIUM_SERVE__GRPC_PORT": str(port),
            "TRIVIUM_SERVE__HTTP_PORT": str(port + 1),
            "TMPDIR": str(temporary),
        }
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts the desk, and waits until it serves."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "serving", "serve"],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C is for the command, which then stops the desk
        )
        when_up(self._process, self._placement, self._data_dir)

    def end_without(self, process: psutil.Process) -> None:
        """Kills a process without which the desk must end by itself, and leave nothing."""
        assert self._process is not None
        name, tree, files = process.name(), self._tree(), set(os.listdir(self._temporary))
        process.kill()
        said, _ = self._process.communicate(timeout=STOP_TIMEOUT_S)
        left = {*filter(is_alive, tree), *mentioning(self._temporary)}
        assert not left, f"left behind: {left}\n{said}"
        assert set(os.listdir(self._temporary)) < files, "the temporary folder is left behind"
        assert self._process.returncode == FAILED, said
        assert f"Trivium ended: Ray's process {name} was ended by SIGKILL" in said, said
        self._forget_process()

    def kill(self) -> None:
        """Kills all its processes, the stores too, in no order."""
        for process in (tree := self._tree()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(tree, timeout=STOP_TIMEOUT_S)
        self._forget_process()

    def kill_main(self) -> None:
        """Kills its main process alone, and starts it again: nothing of the killed one may stay."""
        assert self._process is not None
        tree = self._tree()
        self._process.kill()
        self._forget_process()
        self.start()
        left = [*filter(is_alive, tree)]
        assert not left, f"left behind: {left}"
        folders = [*self._temporary.glob(f"{TEMP_DIR_PREFIX}*")]
        assert len(folders) == 1, f"left behind: one of {folders}"

    def stop(self) -> None:
        """Stops it in order, and kills what is left after a minute."""
        tree = self._tree()
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.communicate(timeout=STOP_TIMEOUT_S)
        for process in filter(is_alive, tree):
            process.kill()
        self._forget_process()

    def keep(self, folder: Path) -> None:
        """Copies its data and its temporary files, with the logs of Ray, and stops it.

        Sockets, and what goes away meanwhile, are left out.
        """
        with contextlib.suppress(shutil.Error):
            shutil.copytree(self._temporary, folder / "temporary", symlinks=True)
        self.stop()
        with contextlib.suppress(shutil.Error):
            shutil.copytree(self._data_dir, folder / "data", symlinks=True)

    def processes(self, role: str) -> list[psutil.Process]:
        """Its processes of a role (`role_of`), or whose name begins so, the oldest first."""
        found = []
        for process in self._tree():
            with contextlib.suppress(psutil.Error):
                name = process.name()
                if name.startswith(role) or role_of(name, process.cmdline()) == role:
                    found.append((process.create_time(), process.pid, process))
        return [process for *_, process in sorted(found)]

    @property
    def postgres_dsn(self) -> str:
        """The address of its PostgreSQL."""
        lines = (self._data_dir / "postgres/pgdata/postmaster.pid").read_text().splitlines()
        return make_conninfo(host=lines[4], port=5432, user="postgres", dbname="postgres")

    @property
    def neo4j_uri(self) -> str:
        """The address of its Neo4j."""
        [process] = self.processes(NEO4J)
        [(_, bolt)] = listeners(process)
        return f"bolt://{LOOPBACK}:{bolt.port}"

    def _tree(self) -> list[psutil.Process]:
        return [] if self._process is None else tree_of(self._process.pid)

    def _forget_process(self) -> None:
        if self._process is not None:
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


@contextlib.contextmanager
def running_desk(placement: str) -> Iterator[Desk]:
    """Starts a desk on fresh data, and stops it; no process of it stays."""
    with (
        fresh_data() as data_dir,
        TemporaryDirectory(prefix="trv-", ignore_cleanup_errors=True) as temporary,
    ):
        desk = Desk(data_dir, Path(temporary), placement)
        try:
            desk.start()
            yield desk
        finally:
            desk.stop()
