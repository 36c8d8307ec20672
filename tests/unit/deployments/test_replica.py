"""What every replica does at its start."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def after_start(code: str) -> str:
    """What code prints in a process of its own, where a replica has started."""
    start = "from serving.deployments.replica import Replica\nReplica()._start({})\n"
    command = [sys.executable, "-c", start + textwrap.dedent(code)]
    return subprocess.check_output(command, text=True)


def test_a_replica_writes_no_core_dump() -> None:
    limits = after_start(
        """
        import resource
        print(*resource.getrlimit(resource.RLIMIT_CORE))
        """
    )

    assert set(limits.split()) <= {"0", "1"}


def test_long_request_id_is_shortened_in_serve_log() -> None:
    logged = after_start(
        """
        import logging, sys
        serves = logging.getLogger("ray.serve")
        serves.addHandler(logging.StreamHandler(sys.stdout))
        serves.handlers[-1].setFormatter(logging.Formatter("%(request_id)s"))
        Replica()._start({})
        serves.warning("x", extra={"request_id": 7000 * "i"})
        """
    )

    assert logged == 128 * "i" + "\n"
