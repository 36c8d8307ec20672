"""Backups: a dump of one snapshot by `pg_dump`, and its restore by `pg_restore`.

A dump was chosen over a base backup. It holds one database and not a cluster, can be restored into
a PostgreSQL of a later version, and needs neither the privilege of replication nor an archive of
the write-ahead log. The price is that nothing after its snapshot can be restored; who needs the
last second archives the log beside it.

A dump is of the whole database. It has the embeddings, which take hours of a model to compute again
and name the text that they are of, so a stale one is not used. It also has the change log and the
positions of the projections, so that `pg_restore` alone can restore it into another cluster; but
`restore` begins a new log, since those positions speak of other transactions, and of an index and a
graph that may be further than the dump.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

from serving.adapters.postgres.connection.dsn import with_defaults
from serving.adapters.postgres.connection.errors import store_errors
from serving.adapters.postgres.connection.migrations import SchemaTooNewError, latest_version
from serving.adapters.postgres.connection.statements import LOG_EPOCH
from serving.domain.consistency import ConsistencyToken, Snapshot

_META_ROW = re.compile(rb"^COPY \S*meta \((?P<columns>[^)]*)\) FROM stdin;\n(?P<row>.*)\n", re.M)


class BackupError(Exception):
    """A backup could not be made or restored; says why and what to do."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a database held at a consistency point.

    Every write is in it whose token is not beyond `token`.
    """

    token: ConsistencyToken
    tenants: int
    items: int


def server_version(dsn: str) -> int:
    """The major version of the server.

    Raises:
        StoreUnavailableError: It cannot be reached.
    """
    with store_errors(), psycopg.connect(with_defaults(dsn)) as connection:
        return connection.info.server_version // 10_000


def back_up(dsn: str, file: Path, programs: Path) -> Contents:
    """Dumps the database to a new file, for its owner alone; the service may be running.

    The file gets its name when it is whole.

    Raises:
        BackupError: The file exists or cannot be written, there is nothing to back up, or
            `pg_dump` failed.
        StoreUnavailableError: PostgreSQL is unreachable.
    """
    if file.exists():
        raise BackupError(f"{file} exists; choose another name, or delete it first")
    with _unfinished(file) as unfinished, store_errors():
        with psycopg.connect(with_defaults(dsn)) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            # It waits for `pg_dump`, which reads its snapshot.
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            contents = _contents(connection)
            (snapshot,) = _row(connection, "SELECT pg_export_snapshot()")
            target = ["--format=custom", f"--snapshot={snapshot}", f"--file={unfinished}"]
            _run(dsn, [str(programs / "pg_dump"), *target])
        unfinished.rename(file)
    return contents


def restore(dsn: str, file: Path, programs: Path) -> None:
    """Restores a backup into an empty database; the next migration begins a new log.

    All rows are restored in one transaction, and the row of `meta` after them: a database without
    it is not used, so what was cut off is not mistaken for a database.

    Raises:
        BackupError: The file is no backup, the database is not empty, or `pg_restore` failed.
        SchemaTooNewError: The backup is of a newer program.
        StoreUnavailableError: PostgreSQL is unreachable.
    """
    columns, row = _meta_of(file, programs)
    version = int(row[columns.index("schema_version")])
    if version > latest_version():
        raise SchemaTooNewError(version, latest_version())
    _require_empty(dsn)
    with tempfile.NamedTemporaryFile("wb", prefix="trivium-restore-") as entries:
        entries.write(_all_but_meta(file, programs))
        entries.flush()
        options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
        source = ["--no-comments", f"--use-list={entries.name}", str(file)]
        _run(dsn, [str(programs / "pg_restore"), *options, *source])
    _write_meta(dsn, columns, row)


def refresh_statistics(dsn: str) -> None:
    """Counts the words anew, which the search by words needs and a dump does not have."""
    with store_errors(), psycopg.connect(with_defaults(dsn), autocommit=True) as connection:
        connection.execute("ANALYZE")


def contents_of(dsn: str) -> Contents:
    """What the database holds now."""
    with store_errors(), psycopg.connect(with_defaults(dsn)) as connection:
        return _contents(connection)


def _contents(connection: psycopg.Connection) -> Contents:
    try:
        epoch, snapshot, tenants, items = _row(
            connection,
            f"""
            SELECT {LOG_EPOCH}, pg_current_snapshot()::text, (SELECT count(*) FROM tenant),
                   (SELECT count(*) FROM segment) + (SELECT count(*) FROM fact)
              FROM meta
            """,
        )
    except psycopg.errors.UndefinedTable as error:
        raise BackupError("there is nothing to back up: the database has no tables") from error
    except psycopg.errors.UndefinedColumn as error:
        raise BackupError("the database has other tables: it is not one of this service") from error
    # Transactions after the oldest that is still running may be missing.
    last = Snapshot.parse(str(snapshot)).xmin - 1
    token = ConsistencyToken(str(epoch), frozenset(), all_up_to=last)
    return Contents(token, int(str(tenants)), int(str(items)))


@contextlib.contextmanager
def _unfinished(file: Path) -> Iterator[Path]:
    """A file beside `file`, for its owner alone, which is gone at the end unless it was renamed."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise BackupError(f"{file} cannot be written ({error.strerror})") from error
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _meta_of(file: Path, programs: Path) -> tuple[list[str], list[str]]:
    """The columns of `meta` and its row, as COPY writes them."""
    command = [str(programs / "pg_restore"), "--data-only", "--table=meta", "--file=-"]
    found = _META_ROW.search(_output([*command, str(file)]))
    if found is None:
        raise BackupError(f"{file} is a dump of another database, not of this service")
    columns = found["columns"].decode().split(", ")
    return columns, found["row"].decode().split("\t")


def _all_but_meta(file: Path, programs: Path) -> bytes:
    """The list of what to restore."""
    command = [str(programs / "pg_restore"), "--list", str(file)]
    lines = _output(command).splitlines(keepends=True)
    return b"".join(line for line in lines if not re.search(rb" TABLE DATA \S+ meta ", line))


def _require_empty(dsn: str) -> None:
    with store_errors(), psycopg.connect(with_defaults(dsn)) as connection:
        tables = connection.execute(
            """
            SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
             WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 3
            """
        ).fetchall()
    if tables:
        named = ", ".join(name for (name,) in tables)
        raise BackupError(
            f"the database is not empty (it has {named}); name an empty one with "
            "TRIVIUM_POSTGRES__DSN, or a new data folder with TRIVIUM_DATA_DIR"
        )


def _write_meta(dsn: str, columns: Sequence[str], row: Sequence[str]) -> None:
    """Writes the row of `meta`, under a number that no cluster has: the log is of another one."""
    names = SQL(", ").join(map(Identifier, columns))
    copying = SQL("COPY meta ({}) FROM STDIN").format(names)
    with store_errors(), psycopg.connect(with_defaults(dsn)) as connection:
        with connection.cursor().copy(copying) as copy:
            copy.write("\t".join(row) + "\n")
        connection.execute("UPDATE meta SET cluster_id = 0")


def _row(connection: psycopg.Connection, statement: str) -> tuple[object, ...]:
    row = connection.execute(statement.encode()).fetchone()
    assert row is not None, "the statement returned no row; this is a bug"
    return row


def _run(dsn: str, command: Sequence[str]) -> None:
    """Runs a program on a database; the password is not among its arguments, which others see."""
    parameters = conninfo_to_dict(with_defaults(dsn))
    password = str(parameters.pop("password", ""))
    with tempfile.NamedTemporaryFile("w", prefix="trivium-pass-") as file:
        if password:
            file.write("*:*:*:*:" + re.sub(r"([\\:])", r"\\\1", password) + "\n")
            file.flush()
            parameters["passfile"] = file.name
        database = make_conninfo("", **parameters)
        _output([*command, f"--dbname={database}", "--no-password"])


def _output(command: Sequence[str]) -> bytes:
    """The standard output of a program.

    Raises:
        BackupError: It failed; repeats one line, since others may quote rows.
    """
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").splitlines()
        why = next((line for line in said if ": error: " in line), "")
        raise BackupError(why or f"{command[0]} ended with status {done.returncode}")
    return done.stdout
