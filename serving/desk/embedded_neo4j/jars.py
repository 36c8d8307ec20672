"""The jars of Neo4j Community.

Maven Central has no server archive of Neo4j, but its jars. They are licensed under GPL-3.0 and run
in their own process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from serving.adapters.maven_jars import (
    Download,
    DownloadError,
    LockedJar,
    download_by_jgo,
    fetch_jars,
)
from serving.domain.errors import DependencyError

VERSION = "5.26.30"
"""A long-term support release; its jars are in `jars.lock`, by `tests/support/neo4j_jars.py`."""

LOCK_PATH = Path(__file__).with_name("jars.lock")

OnProgress = Callable[[str], None]


def locked_jars() -> list[LockedJar]:
    """Every jar of the class path."""
    return [LockedJar.parse(line) for line in LOCK_PATH.read_text(encoding="ascii").splitlines()]


def jar_directory(
    cache: Path,
    on_progress: OnProgress,
    *,
    jars: Sequence[LockedJar] | None = None,
    download: Download = download_by_jgo,
) -> Path:
    """The directory in `cache` with every jar; downloads the missing ones.

    Raises:
        DependencyError: A jar cannot be downloaded or has another checksum.
    """
    directory = cache / f"neo4j-{VERSION}"
    jars = locked_jars() if jars is None else jars

    def report(done: int) -> None:
        on_progress(f"downloading Neo4j {VERSION}: {done} of {len(jars)} jars")

    try:
        fetch_jars(jars, directory, report, download)
    except DownloadError as error:
        raise DependencyError("graph", str(error)) from error
    return directory
