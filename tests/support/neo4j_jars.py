"""Writes `jars.lock`: `python -m tests.support.neo4j_jars 5.26.30`.

Resolves the run-time dependencies of Neo4j and hashes the downloads, so run it on a trusted
network.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jgo.maven import Artifact, MavenContext


def _artifacts(version: str, repository: Path) -> Iterator[Artifact]:
    context = MavenContext(repo_cache=repository)
    neo4j = context.create_dependency(f"org.neo4j:neo4j:{version}")
    named, transitive = context.resolver.resolve([neo4j])
    yield from (dependency.artifact for dependency in named)
    for dependency in transitive:
        if dependency.scope in ("compile", "runtime"):
            yield dependency.artifact


def main(version: str) -> None:
    """Prints a line per jar, ordered by coordinate."""
    with tempfile.TemporaryDirectory() as repository:
        lines = [
            (str(artifact), hashlib.sha256(artifact.resolve().read_bytes()).hexdigest())
            for artifact in _artifacts(version, Path(repository))
        ]
    for coordinate, sha256 in sorted(lines):
        print(f"{sha256}  {coordinate}")


if __name__ == "__main__":
    main(sys.argv[1])
