"""Fetches the jars of Neo4j Community once, each checked against its locked SHA-256.

Neo4j publishes no server archive on Maven Central, but its jars are there. They
are licensed under GPL-3.0 and run in a process of their own.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from serving.domain.errors import DependencyError

VERSION = "5.26.30"
"""The long-term line; what belongs to it is in `jars.lock`, written by `lock.py`."""

LOCK_PATH = Path(__file__).with_name("jars.lock")
PARALLEL_DOWNLOADS = 8
ATTEMPTS = 3

OnProgress = Callable[[str], None]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockedJar:
    """A jar that Neo4j needs, and the only content it may have."""

    sha256: str
    group: str
    artifact: str
    classifier: str
    version: str

    @classmethod
    def parse(cls, line: str) -> LockedJar:
        """Reads `sha256  group:artifact:jar[:classifier]:version`."""
        sha256, coordinate = line.split()
        group, artifact, _, *classifier, version = coordinate.split(":")
        return cls(sha256, group, artifact, "".join(classifier), version)

    @property
    def file_name(self) -> str:
        """Its name, unique among the locked."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{suffix}.jar"


Download = Callable[[LockedJar, Path], Path]
"""Fetches a jar into a directory of its own choice below the one given; returns where it is."""


def locked_jars() -> list[LockedJar]:
    """Every jar of the class path."""
    return [LockedJar.parse(line) for line in LOCK_PATH.read_text(encoding="ascii").splitlines()]


def download_by_jgo(jar: LockedJar, below: Path) -> Path:
    """Downloads from where Maven would."""
    # Only a first start needs the resolver.
    from jgo.maven import MavenContext

    project = MavenContext(repo_cache=below).project(jar.group, jar.artifact)
    artifact = project.at_version(jar.version).artifact(classifier=jar.classifier)
    return Path(artifact.resolve())


def jar_directory(
    cache: Path,
    on_progress: OnProgress,
    *,
    jars: Sequence[LockedJar] | None = None,
    download: Download = download_by_jgo,
) -> Path:
    """The directory in `cache` that holds every jar, after fetching those it lacks.

    A jar is moved there only when it is whole, so a run that was interrupted is
    taken up by the next. Once all are there, nothing is asked of the network.

    Raises:
        DependencyError: A jar cannot be fetched or is not the locked one.
    """
    directory = cache / f"neo4j-{VERSION}"
    jars = locked_jars() if jars is None else jars
    if _missing(jars, directory):
        directory.mkdir(parents=True, exist_ok=True)
        with _exclusive(cache / f"neo4j-{VERSION}.lock"):
            _Fetch(directory, len(jars), download, on_progress).run(jars)
    return directory


def _missing(jars: Sequence[LockedJar], directory: Path) -> list[LockedJar]:
    return [jar for jar in jars if not (directory / jar.file_name).exists()]


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Holds the lock of a file, which ends with the process at the latest."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Brings the missing jars into a directory."""

    directory: Path
    total: int
    download: Download
    on_progress: OnProgress

    def run(self, jars: Sequence[LockedJar]) -> None:
        """Fetches several at a time and stops at the first that cannot be had."""
        # What an interrupted run left here may be cut short.
        shutil.rmtree(self._staging, ignore_errors=True)
        # Another process may have fetched some while this one waited.
        missing = _missing(jars, self.directory)
        with ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool:
            fetched = [pool.submit(self._one, jar) for jar in missing]
            try:
                for done, future in enumerate(as_completed(fetched), self.total - len(missing) + 1):
                    future.result()
                    self.on_progress(f"fetching Neo4j {VERSION}: {done} of {self.total} jars")
            finally:
                pool.shutdown(cancel_futures=True)
        shutil.rmtree(self._staging, ignore_errors=True)

    @property
    def _staging(self) -> Path:
        return self.directory / "staging"

    def _one(self, jar: LockedJar) -> None:
        for attempt in range(ATTEMPTS):
            try:
                path = self.download(jar, self._staging / str(attempt))
            except Exception as error:
                # Whatever the resolver or its HTTP library raises; its text names addresses.
                logger.debug("jar not fetched", extra={"jar": jar.file_name}, exc_info=True)
                why = type(error).__name__
            else:
                if hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256:
                    path.replace(self.directory / jar.file_name)
                    return
                why = "it is not the locked file"
        raise DependencyError(
            "graph", f"{jar.file_name} cannot be fetched ({why}); run again to go on"
        )
