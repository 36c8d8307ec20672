"""The end of a process whose device is lost."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from serving.composition.process import EXIT_CODE
from serving.models.lost_device import works


def test_a_process_ends_whatever_it_waits_for_and_has_said_why() -> None:
    """A thread that is no daemon keeps an interpreter from its ordinary end."""
    script = textwrap.dedent(
        """
        import atexit, logging, threading
        from serving.composition.process import end_process_soon
        logging.basicConfig(format="%(message)s")
        atexit.register(lambda: print("asked the device once more"))
        threading.Thread(target=threading.Event().wait).start()
        end_process_soon()
        """
    )

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert ended.returncode == EXIT_CODE
    assert "ending this process: its device is lost" in ended.stderr
    assert not ended.stdout


def test_a_cpu_always_works() -> None:
    assert works("cpu")
