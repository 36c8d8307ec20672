"""The account that runs PostgreSQL: the current one, or another if the current one is root."""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

ACCOUNT = "nobody"
"""The account that runs PostgreSQL, which does not run as root, for root."""

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
"""The whole environment of PostgreSQL's programs: no PG* variable may affect them."""


class Credentials(TypedDict, total=False):
    """Arguments of `subprocess` that make a program run as another account."""

    user: int
    group: int
    extra_groups: list[int]


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

    def credentials(self) -> Credentials:
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
