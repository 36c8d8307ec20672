"""What every replica does at its start."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def test_a_replica_writes_no_core_dump() -> None:
    script = textwrap.dedent(
        """
        import resource
        from serving.deployments.replica import Replica
        Replica()._start({})
        print(*resource.getrlimit(resource.RLIMIT_CORE))
        """
    )

    limits = subprocess.check_output([sys.executable, "-c", script], text=True)

    assert set(limits.split()) <= {"0", "1"}
