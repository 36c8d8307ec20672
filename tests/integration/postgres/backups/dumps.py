"""PostgreSQL's own programs, as docs/backups.md calls them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from serving.desk.embedded_postgres import find_binaries


def dump(dsn: str, file: Path) -> None:
    _run("pg_dump", "--format=custom", f"--file={file}", dsn)


def restore(dsn: str, file: Path) -> None:
    owned = ["--no-owner", "--no-privileges", "--no-comments"]
    _run("pg_restore", "--single-transaction", *owned, f"--dbname={dsn}", str(file))


def write_anew(dsn: str) -> None:
    """Writes the files of the database anew, without what was erased."""
    empty = "SELECT oid FROM pg_class WHERE reltuples = 0"
    statements = [
        f"DELETE FROM pg_statistic WHERE starelid IN ({empty})",
        "VACUUM FULL pg_statistic",
        "SELECT pg_switch_wal()",
        "CHECKPOINT",
    ]
    _run("vacuumdb", "--full", "--analyze", dsn)
    _run("psql", dsn, *(f"--command={each}" for each in statements))


def _run(program: str, *arguments: str) -> None:
    subprocess.run([str(find_binaries() / program), *arguments], check=True)


def files_with(text: str, folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if text.encode() in path.read_bytes()]
