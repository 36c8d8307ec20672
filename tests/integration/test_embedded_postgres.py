"""The launcher of the embedded PostgreSQL, with real processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pwd
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from serving.desk.embedded_postgres import EmbeddedPostgres, PostgresStartError, find_binaries
from serving.desk.embedded_postgres.programs import ACCOUNT
from tests.fixtures.postgres import QUICK, pid_of
from tests.support.processes import is_alive, python_child, tree_of
from tests.support.waiting import until

pytestmark = pytest.mark.postgres

STARTER = """
import signal, sys
from pathlib import Path
from serving.desk.embedded_postgres import EmbeddedPostgres
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
with EmbeddedPostgres(Path(sys.argv[1])):
    print("started", flush=True)
    signal.pause()
"""
"""Starts the server and then waits until it is ended."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root")


@pytest.fixture
def root(short_directory: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory for one server; any server still running there is stopped at the end."""
    root = short_directory / f"pg-{abs(hash(request.node.name)) % 10**6}"
    yield root
    if (root / "pgdata" / "postmaster.pid").exists():
        with contextlib.suppress(PostgresStartError):
            left = EmbeddedPostgres(root)
            left.start()
            left.stop()


def answers(dsn: str) -> bool:
    try:
        with psycopg.connect(dsn) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def socket_directory_of(dsn: str) -> Path:
    return Path(str(conninfo_to_dict(dsn)["host"]))


def runs(pid: int) -> bool:
    return any(map(is_alive, tree_of(pid)))


def replace_pid(root: Path, pid: int) -> None:
    """Changes the pid in the files of a killed server to that of another process."""
    for file in (root / "pgdata" / "postmaster.pid", root / "run" / ".s.PGSQL.5432.lock"):
        lines = file.read_text().splitlines()
        file.write_text("\n".join([str(pid), *lines[1:], ""]))


def test_private_server_keeps_data_and_leaves_nothing(root: Path) -> None:
    with EmbeddedPostgres(root, settings=QUICK) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept (x int)")
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert stat.S_IMODE((root / "run").stat().st_mode) == 0o700
        pid = pid_of(root)

    assert not runs(pid)
    assert not (root / "pgdata" / "postmaster.pid").exists()
    assert list((root / "run").iterdir()) == []
    with EmbeddedPostgres(root) as dsn, psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_a_second_start_joins_and_the_last_stop_stops(root: Path) -> None:
    first, second = EmbeddedPostgres(root, settings=QUICK), EmbeddedPostgres(root)
    dsn = first.start()
    pid = pid_of(root)

    assert second.start() == dsn
    first.stop()
    assert answers(dsn)
    second.stop()
    assert not runs(pid)
    first.stop()


@pytest.mark.parametrize("folder", [".", "x" * 120], ids=["a socket below it", "a short socket"])
def test_a_killed_server_is_started_again_at_its_address(root: Path, folder: str) -> None:
    root.mkdir(mode=0o755)
    server = EmbeddedPostgres(root / folder, settings=QUICK)
    server.restart_if_dead()
    with server as dsn:
        server.restart_if_dead()
        pid = pid_of(root / folder)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not runs(pid))

        server.restart_if_dead()

        assert answers(dsn)
        assert pid_of(root / folder) != pid
    assert not answers(dsn)


@pytest.mark.parametrize("of_another_server", [False, True], ids=["any process", "a server"])
def test_pid_of_another_process_is_not_the_server(
    root: Path, of_another_server: bool, short_directory: Path, postgres_server: str
) -> None:
    server = EmbeddedPostgres(root, settings=QUICK)
    server.start()
    os.kill(pid_of(root), signal.SIGKILL)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        other = pid_of(short_directory / "server") if of_another_server else bystander.pid
        replace_pid(root, other)
        try:
            with EmbeddedPostgres(root) as dsn:
                assert answers(dsn)
                assert pid_of(root) != other
            assert runs(other)
        finally:
            server.stop()
            bystander.kill()
    assert not of_another_server or answers(postgres_server)


def test_server_of_a_killed_process_ends(root: Path) -> None:
    with python_child(STARTER, root) as (starter, _):
        pid = pid_of(root)
        starter.kill()

        until(lambda: not runs(pid))


def test_server_of_a_killed_process_stays_for_others(root: Path) -> None:
    with python_child(STARTER, root) as (starter, _):
        pid = pid_of(root)
        with EmbeddedPostgres(root) as dsn:
            starter.kill()
            starter.wait()
            assert pid_of(root) == pid
            assert answers(dsn)

        until(lambda: not runs(pid))


def test_server_is_started_after_a_killed_process(root: Path) -> None:
    with python_child(STARTER, root) as (starter, _):
        starter.kill()
        starter.wait()

        with EmbeddedPostgres(root) as dsn:
            assert answers(dsn)


def test_a_starter_that_still_lives_keeps_its_server(root: Path) -> None:
    with python_child(STARTER, root) as (starter, _):
        with EmbeddedPostgres(root) as dsn:
            assert answers(dsn)

        assert answers(dsn)
        pid = pid_of(root)
        starter.terminate()
        starter.wait()
    assert not runs(pid)


@pytest.mark.parametrize("killed", [False, True])
def test_short_socket_of_a_long_path_is_removed(root: Path, killed: bool) -> None:
    long_root = root / ("x" * 120)
    root.mkdir(mode=0o755)
    server = EmbeddedPostgres(long_root, settings=QUICK)
    dsn = server.start()
    directory = socket_directory_of(dsn)
    assert answers(dsn)
    assert len(str(directory)) < 100

    if killed:
        os.kill(pid_of(long_root), signal.SIGKILL)
        with EmbeddedPostgres(long_root):
            assert not directory.exists()
    server.stop()

    assert not directory.exists()


def test_data_of_another_major_version_is_rejected(root: Path) -> None:
    with EmbeddedPostgres(root, settings=QUICK):
        pass
    (root / "pgdata" / "PG_VERSION").write_text("12\n")

    with pytest.raises(PostgresStartError, match="created by PostgreSQL 12"):
        EmbeddedPostgres(root).start()

    shutil.rmtree(root / "pgdata")


def test_failed_start_names_its_error_and_log(root: Path) -> None:
    server = EmbeddedPostgres(root, settings={"shared_buffers": "nonsense"})

    with pytest.raises(PostgresStartError, match="nonsense") as caught:
        server.start()

    assert str(root / "postgres.log") in str(caught.value)


def test_incomplete_cluster_is_created_again(root: Path) -> None:
    (root / "pgdata.new").mkdir(parents=True)
    (root / "pgdata.new" / "PG_VERSION").write_text("18\n")

    with EmbeddedPostgres(root, settings=QUICK) as dsn:
        assert answers(dsn)


def test_binaries_that_are_none_are_named(root: Path) -> None:
    with pytest.raises(PostgresStartError, match="holds no PostgreSQL"):
        EmbeddedPostgres(root, binaries=Path("/usr/lib")).start()


@as_root
def test_root_hands_the_server_to_another_account(root: Path) -> None:
    with EmbeddedPostgres(root, settings=QUICK):
        assert Path(f"/proc/{pid_of(root)}").stat().st_uid == pwd.getpwnam(ACCOUNT).pw_uid


@as_root
def test_unreachable_binaries_are_copied_without_wider_permissions(
    root: Path, short_directory: Path
) -> None:
    private = short_directory / "private"
    package = find_binaries().parents[1]
    private.mkdir(mode=0o700)
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, private / part.name, symlinks=True)

    binaries = private / package.name / "pginstall" / "bin"
    with EmbeddedPostgres(root, binaries=binaries, settings=QUICK) as dsn:
        assert answers(dsn)

    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    shutil.rmtree(private)


@as_root
def test_a_root_within_a_private_home_is_rejected(short_directory: Path) -> None:
    private = short_directory / "home"
    private.mkdir(mode=0o700)

    with pytest.raises(PostgresStartError, match="cannot enter"):
        EmbeddedPostgres(private / "data").start()

    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    shutil.rmtree(private)


@as_root
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_postgresql_runs_as_the_ordinary_user(short_directory: Path) -> None:
    entry = pwd.getpwnam("nobody")
    home = short_directory / "ordinary"
    home.mkdir()
    os.chown(home, entry.pw_uid, entry.pw_gid)

    process = multiprocessing.get_context("fork").Process(
        target=serve_as, args=(home / "data", entry.pw_uid, entry.pw_gid)
    )
    process.start()
    process.join(60)

    assert process.exitcode == 0
    shutil.rmtree(home)


def serve_as(root: Path, user: int, group: int) -> None:
    """Becomes an ordinary user for good, and runs a server.

    By fork: the interpreter itself may lie where that user cannot start it.
    """
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    with EmbeddedPostgres(root, settings=QUICK) as dsn:
        assert answers(dsn)
        assert Path(f"/proc/{pid_of(root)}").stat().st_uid == user


def test_a_root_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    root = tmp_path / "file" / "postgres"

    with pytest.raises(PostgresStartError, match="Not a directory") as caught:
        EmbeddedPostgres(root).start()

    assert str(root) in str(caught.value)
