"""The image of `deploy/Containerfile`, made by buildah in an empty Debian.

Run as a program, in namespaces of its own (`Image.run`), it starts the stores and the image, and
asks one question.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from psycopg.conninfo import make_conninfo

from serving.desk.embedded_neo4j import EmbeddedNeo4j
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.desk.ray_environment import LOOPBACK
from tests.support.processes import inherited_environment
from tests.support.tracked_files import ROOT
from tests.support.waiting import until
from trivium import Client, Fact, Retrieval, Segment
from trivium.values import LegState

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
"""Those of this machine, which may reach the package index through a proxy only."""

PACKAGES = "python3,python3-venv,python3-dev,ca-certificates"
"""What the base image of Python has and Debian's smallest has not: its headers too."""

START_TIMEOUT_S = 240.0
ANSWER_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
PYTHON = (sys.executable, "-m", "tests.support.image")
NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
READ_ONLY = """
set -e
ip link set lo up
mount --rbind "$0" "$0"
mount -o remount,bind,ro "$0"
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -t tmpfs -o size=256m,mode=1777 shm "$0/dev/shm"
mount -t tmpfs -o size=2g,mode=1777 tmp "$0/tmp"
exec "$@"
"""
"""As docs/deploying.md has a container run: only /tmp and shared memory can be written."""


@dataclass(frozen=True, slots=True)
class Image:
    """A built image: the folder of its root, and what its Containerfile sets."""

    root: Path
    config: Mapping[str, Any]

    def run(self, cache: Path, *command: str) -> Any:
        """Starts the stores and the image, asks one question, and ends both.

        Args:
            cache: Has Neo4j's jars: there is no network.
            command: In place of the command of the image.

        Returns:
            The object that `main` prints.
        """
        given = json.dumps({"config": self.config, "cache": str(cache), "command": command})
        entered = (*NAMESPACES, "sh", "-c", READ_ONLY, str(self.root))
        return json.loads(_output(*entered, *PYTHON, str(self.root), given))

    def ran(self, *command: str) -> tuple[int, str]:
        """Runs one command alone, under the account of the image, with neither network nor GPU.

        Returns:
            Its exit status, and what it printed.
        """
        container = Container(str(self.root), self.config, {}, Path(os.devnull))
        done = subprocess.run(
            [*NAMESPACES, "sh", "-c", READ_ONLY, container.root, *container.entered(command)],
            env=container.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout


@contextlib.contextmanager
def built_image(folder: Path, **arguments: str) -> Iterator[Image]:
    """Follows the Containerfile in a Debian with nothing but Python; removes all of it at the end.

    Args:
        folder: Where images are stored until then.
        arguments: Build arguments, such as `REQUIREMENTS`.
    """
    store = ("--root", str(folder / "store"), "--runroot", str(folder / "run"))
    buildah = ("buildah", *store, "--storage-driver", "overlay")
    try:
        base = _debian(buildah, folder)
        options = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        _output(
            *(*buildah, "build", "--quiet", "--format", "docker", "--isolation", "chroot"),
            *("--network", "host", f"--build-arg=BASE={base}", *options, "--tag", "trivium"),
            *("--file", str(ROOT / "deploy/Containerfile"), str(ROOT)),
        )
        container = _output(*buildah, "from", "--pull-never", "localhost/trivium")
        root = Path(_output(*buildah, "mount", container))
        inspected = json.loads(_output(*buildah, "inspect", container))
        yield Image(root, inspected["Docker"]["config"])
    finally:
        _output(*buildah, "rm", "--all")
        _output(*buildah, "rmi", "--all", "--force")


def _debian(buildah: Sequence[str], folder: Path) -> str:
    """The name of an image with Debian 12, Python, and the certificates of this machine."""
    archive = folder / "debian.tar"
    _output(
        "mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm", archive
    )
    container = _output(*buildah, "from", "scratch")
    _output(*buildah, "add", container, archive, "/")
    archive.unlink()
    _output(*buildah, "copy", container, CERTIFICATES, CERTIFICATES)
    trusted = [f"--env={name}={CERTIFICATES}" for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")]
    _output(*buildah, "config", *trusted, container)
    _output(*buildah, "commit", "--quiet", "--rm", container, "trivium-base")
    return "localhost/trivium-base"


def _output(*command: str | Path) -> str:
    """What a command prints, without the end of the line; it has to succeed."""
    done = subprocess.run(
        command, cwd=ROOT, env=inherited_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, (command[:8], done.stdout[-4000:], done.stderr[-4000:])
    return done.stdout.rstrip("\n")


# ---- inside the namespaces


def main(root: str, given: str) -> None:
    """Prints the labels of the answer, and who ran it, as JSON."""
    read = json.loads(given)
    with (
        tempfile.TemporaryDirectory(prefix="trv-") as temporary,
        _stores(Path(temporary), Path(read["cache"])) as stores,
    ):
        container = Container(root, read["config"], stores, Path(temporary) / "log")
        with container.running(read["command"]) as process:
            until(lambda: container.is_healthy(process), START_TIMEOUT_S)
            answer = _asked()
            accounts = container.accounts()
        legs = {report.leg: report.state.value for report in answer.leg_reports}
        ids = [hit.id for hit in answer.hits]
        print(
            json.dumps({"ids": ids, "legs": legs, "accounts": accounts, "code": process.returncode})
        )


@contextlib.contextmanager
def _stores(folder: Path, cache: Path) -> Iterator[dict[str, str]]:
    """The variables that name both stores, which listen on loopback."""
    # PostgreSQL runs under another account if we are root.
    folder.chmod(0o755)
    listening = {"listen_addresses": LOOPBACK}
    with (
        EmbeddedPostgres(folder / "postgres", settings=listening) as dsn,
        EmbeddedNeo4j(folder / "neo4j", cache) as uri,
    ):
        yield {
            "TRIVIUM_POSTGRES__DSN": make_conninfo(dsn, host=LOOPBACK),
            "TRIVIUM_NEO4J__URI": uri,
            "TRIVIUM_AUTH__ALLOW_ANONYMOUS": "true",
        }


@dataclass(frozen=True, slots=True)
class Container:
    """The processes in the root of an image, under its account."""

    root: str
    config: Mapping[str, Any]
    settings: Mapping[str, str]
    log: Path

    @contextlib.contextmanager
    def running(self, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """Runs a command, or that of the image, with a block; then ends it as an engine does."""
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                self.entered(command or self.config["Cmd"]),
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        finally:
            process.send_signal(signal.Signals[self.config["StopSignal"]])
            process.wait(STOP_TIMEOUT_S)

    def is_healthy(self, process: subprocess.Popen[bytes]) -> bool:
        """Asks by the health command of the image; fails if the process has ended."""
        assert process.poll() is None, self.log.read_text()[-4000:]
        command = self.entered(self.config["Healthcheck"]["Test"][1:])
        return subprocess.run(command, env=self.environment, capture_output=True).returncode == 0

    def accounts(self) -> list[int]:
        """Those of all processes in the root."""
        return sorted(
            {each.uids().effective for each in psutil.process_iter() if self._holds(each)}
        )

    def _holds(self, process: psutil.Process) -> bool:
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{process.pid}/root") == self.root
        return False

    def entered(self, command: Sequence[str]) -> list[str]:
        """The command that runs another one in the root, under the account of the image."""
        user, _, group = self.config["User"].partition(":")
        at = ("--root", self.root, "--wd", self.config["WorkingDir"])
        return ["unshare", *at, "--setgid", group, "--setuid", user, *command]

    @property
    def environment(self) -> dict[str, str]:
        """What the image sets, and the settings."""
        return {**dict(each.split("=", 1) for each in self.config["Env"]), **self.settings}


def _asked() -> Retrieval:
    """Stores two sentences and a fact, and asks about them until no leg is late."""
    hired = Segment(id="hired", speaker="Tom", text="Lotus Books hired me, I start on Monday.")
    heat = Segment(id="heat", speaker="Tom", text="The dog sleeps all day since the heat came.")
    works = Fact(
        id="works", subject="Tom", relation="works at", object="Lotus Books", evidence=("hired",)
    )
    answers: list[Retrieval] = []
    with Client(f"{LOOPBACK}:9000", tenant="image", timeout=30) as memory:
        token = memory.ingest([hired, heat, works]).consistency_token

        def answered() -> bool:
            answers.append(memory.retrieve("Who hired Tom?", consistency_token=token))
            return all(report.state == LegState.OK for report in answers[-1].leg_reports)

        until(answered, ANSWER_TIMEOUT_S)
    return answers[-1]


if __name__ == "__main__":
    main(*sys.argv[1:])
