"""Who runs PostgreSQL: ourselves, or, since it refuses to run as root, another account."""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

ACCOUNT = "nobody"
"""Who runs it for root."""

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
"""All that PostgreSQL's programs get: no PG* variable of ours may steer them."""


class Credentials(TypedDict, total=False):
    """Arguments of `subprocess` that make a program run as another account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """The account of the server; `ids` is None if that is our own."""

    ids: tuple[int, int] | None

    @classmethod
    def of_server(cls) -> Account:
        """The account that runs the server: ours, unless we are root."""
        if os.geteuid() != 0:
            return cls(None)
        entry = pwd.getpwnam(ACCOUNT)
        return cls((entry.pw_uid, entry.pw_gid))

    def credentials(self) -> Credentials:
        """What makes `subprocess` run a program as the account."""
        if self.ids is None:
            return {}
        return {"user": self.ids[0], "group": self.ids[1], "extra_groups": []}

    def own(self, path: Path) -> None:
        """Makes the account the owner of `path`, and of nothing above it."""
        if self.ids is not None:
            os.chown(path, *self.ids)

    def can(self, test: str, path: Path) -> bool:
        """Asks the kernel, by test(1) as the account: modes alone do not tell (ACLs, mounts)."""
        answer = subprocess.run(["test", test, str(path)], **self.credentials())
        return answer.returncode == 0
