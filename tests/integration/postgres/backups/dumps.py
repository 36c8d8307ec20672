"""`pg_dump` and `pg_restore`, with the options of docs/guarantees.md."""

from __future__ import annotations

import subprocess
from pathlib import Path

from serving.desk.embedded_postgres import find_binaries


def dump(dsn: str, file: Path) -> None:
    """Dumps the database to a file."""
    _run("pg_dump", "--format=custom", f"--file={file}", dsn)


def restore(dsn: str, file: Path) -> None:
    """Restores a file into an empty database."""
    owned = ["--no-owner", "--no-privileges", "--no-comments"]
    _run("pg_restore", "--single-transaction", *owned, f"--dbname={dsn}", str(file))


def _run(program: str, *arguments: str) -> None:
    subprocess.run([str(find_binaries() / program), *arguments], check=True)
