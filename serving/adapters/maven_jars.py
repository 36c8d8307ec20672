"""Downloads jars from Maven's repositories, each checked against its locked SHA-256."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from serving.domain.errors import DependencyError

PARALLEL_DOWNLOADS = 8
ATTEMPTS = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockedJar:
    """A required jar and its checksum."""

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
        """Its file name, unique among the jars of a directory."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{suffix}.jar"


Download = Callable[[LockedJar, Path], Path]
"""Downloads a jar to a path of its own choice below a directory; returns the path."""

OnJar = Callable[[int], None]
"""Called after each download with the number of jars that are present."""


def download_by_jgo(jar: LockedJar, below: Path) -> Path:
    """Downloads from Maven's repositories."""
    # Imported here: only the first start needs the resolver.
    from jgo.maven import MavenContext

    project = MavenContext(repo_cache=below).project(jar.group, jar.artifact)
    artifact = project.at_version(jar.version).artifact(classifier=jar.classifier)
    return Path(artifact.resolve())


def fetch_jars(
    dependency: str,
    jars: Sequence[LockedJar],
    directory: Path,
    on_jar: OnJar,
    download: Download,
) -> None:
    """Downloads the jars that a directory lacks, several at a time.

    A jar is moved there only when complete, so the next run resumes an interrupted one. Once all
    jars are present, the network is not used. Several processes may call it at once.

    Raises:
        DependencyError: A jar of the dependency cannot be downloaded or has another checksum; the
            reason has no addresses.
    """
    if not _missing(jars, directory):
        return
    directory.mkdir(parents=True, exist_ok=True)
    staging = directory / "staging"
    with (
        directory.with_name(f"{directory.name}.lock").open("w") as lock,
        ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel releases it if the process dies
        # Downloads of an interrupted run may be incomplete.
        shutil.rmtree(staging, ignore_errors=True)
        # Another process may have downloaded some while this one waited for the lock.
        missing = _missing(jars, directory)
        downloads = [
            pool.submit(_download, dependency, jar, directory, staging, download) for jar in missing
        ]
        try:
            for done, future in enumerate(as_completed(downloads), len(jars) - len(missing) + 1):
                future.result()
                on_jar(done)
        finally:
            pool.shutdown(cancel_futures=True)
        shutil.rmtree(staging, ignore_errors=True)


def _missing(jars: Sequence[LockedJar], directory: Path) -> list[LockedJar]:
    return [jar for jar in jars if not (directory / jar.file_name).exists()]


def _download(
    dependency: str, jar: LockedJar, directory: Path, staging: Path, download: Download
) -> None:
    for attempt in range(ATTEMPTS):
        try:
            path = download(jar, staging / str(attempt))
        except Exception as error:
            # Any error of the resolver or its HTTP library; its text contains addresses.
            logger.debug("jar not downloaded", extra={"jar": jar.file_name}, exc_info=True)
            reason = type(error).__name__
        else:
            if hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256:
                path.replace(directory / jar.file_name)
                return
            reason = "wrong checksum"
    why = f"{jar.file_name} cannot be downloaded ({reason}); run again to resume"
    raise DependencyError(dependency, why)
